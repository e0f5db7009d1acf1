//! The rounds: in each, every variant has its turn.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::sleep;

use crate::load;
use crate::options::Options;
use crate::variants::Target;

/// For the servers to finish what a turn left behind.
const PAUSE: Duration = Duration::from_millis(100);

/// One turn of one variant.
pub struct Turn {
    pub rps: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub cpu_us_per_request: f64,
    pub requests: u64,
    pub errors: u64,
    pub first_error: Option<String>,
}

/// All turns of one variant, in the order of the rounds.
pub struct Measured {
    pub name: &'static str,
    pub turns: Vec<Turn>,
}

impl Measured {
    pub fn median(&self, value: fn(&Turn) -> f64) -> f64 {
        median(self.turns.iter().map(value).collect())
    }

    pub fn errors(&self) -> u64 {
        self.turns.iter().map(|turn| turn.errors).sum()
    }

    /// Throughput divided by that of `other` in the same round, for each round.
    pub fn ratios(&self, other: &Self) -> Vec<f64> {
        let pairs = self.turns.iter().zip(&other.turns);
        pairs.map(|(own, other)| own.rps / other.rps).collect()
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[odd / 2],
        even => (values[even / 2 - 1] + values[even / 2]) / 2.0,
    }
}

/// Measures each target once a round. Every other round runs backwards, so that no variant
/// always follows the same one.
pub async fn measure(options: &Options, targets: &[Target]) -> Result<Vec<Measured>> {
    for target in targets {
        turn(target, options.connections, options.warm_up).await?;
    }
    let mut measured: Vec<Measured> =
        targets.iter().map(|target| Measured { name: target.name, turns: Vec::new() }).collect();
    for round in 0..options.rounds {
        println!("round {} of {}", round + 1, options.rounds);
        let mut order: Vec<usize> = (0..targets.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let turn = turn(&targets[index], options.connections, options.turn).await?;
            measured[index].turns.push(turn);
        }
    }
    Ok(measured)
}

/// Loads one server with `connections` for `length`.
pub async fn turn(target: &Target, connections: usize, length: Duration) -> Result<Turn> {
    sleep(PAUSE).await;
    let ready = load::open(&target.work, connections).await;
    let ready = ready.with_context(|| format!("{}: the first answer", target.name))?;
    let cpu_before = target.server.cpu_time()?;
    let load = ready.run(length).await.context(target.name)?;
    let cpu = target.server.cpu_time()? - cpu_before;
    let requests = load.latency.total();
    Ok(Turn {
        rps: load.rps(),
        p50_ms: load.latency.quantile_ms(0.5),
        p99_ms: load.latency.quantile_ms(0.99),
        cpu_us_per_request: cpu.as_secs_f64() * 1e6 / requests.max(1) as f64,
        requests,
        errors: load.errors,
        first_error: load.first_error,
    })
}
