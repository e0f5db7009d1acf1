//! Latencies, counted in buckets of equal relative width.

use std::time::Duration;

/// Bits kept of a value: the error is at most 1 in 256.
const BITS: u32 = 7;
const STEPS: u64 = 1 << BITS;
const BUCKETS: usize = ((64 - BITS as usize) + 1) << BITS;

/// How often each latency was seen.
pub struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

impl Histogram {
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }

    pub fn record(&mut self, latency: Duration) {
        self.counts[bucket(latency.as_nanos() as u64)] += 1;
        self.total += 1;
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// The latency that `share` (0 to 1) of all stay at or below, in milliseconds.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return middle(index) / 1e6;
            }
        }
        0.0
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - BITS;
    (u64::from(shift) * STEPS + (nanos >> shift)) as usize
}

/// The middle of a bucket, in nanoseconds.
fn middle(index: usize) -> f64 {
    let (index, steps) = (index as u64, STEPS);
    if index < 2 * steps {
        return index as f64;
    }
    let shift = index / steps - 1;
    let step = index - shift * steps;
    (step as f64 + 0.5) * (1u64 << shift) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_within_one_percent() {
        for nanos in [0, 1, 127, 128, 255, 256, 999, 12_345, 1_000_000, 98_765_432_100] {
            let back = middle(bucket(nanos));
            assert!((back - nanos as f64).abs() <= nanos as f64 * 0.01, "{nanos} {back}");
        }
    }

    #[test]
    fn quantiles_of_a_thousand_even_steps() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        assert!((histogram.quantile_ms(0.5) - 500.0).abs() < 5.0);
        assert!((histogram.quantile_ms(0.99) - 990.0).abs() < 10.0);
        assert_eq!(histogram.total(), 1000);
    }
}
