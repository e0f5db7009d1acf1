//! How often a key may start runs (`ceilings.rates`): a bucket for each key that has a rate.
//!
//! A bucket holds as many executions as the key has for a minute, and is filled evenly. It is in
//! memory: after a start all are full.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::model::{Code, Error, Key, KeyId, RateState};

/// What a rate is for.
const WINDOW: Duration = Duration::from_secs(60);

/// The buckets: when each will be full again. One that is not here is full.
#[derive(Default)]
pub(super) struct Rates(Mutex<HashMap<KeyId, Instant>>);

impl Rates {
    /// Takes one execution out of the key's bucket.
    ///
    /// # Errors
    ///
    /// `rate_limited` if there is none, with the time until there is.
    pub(super) fn take(&self, key: &Key, now: Instant) -> Result<(), Error> {
        let Some(most) = key.executions_per_minute() else { return Ok(()) };
        let mut each = self.0.lock();
        let full = each.get(&key.id).map_or(now, |full| now.max(*full)) + cost(most);
        let missing = full.saturating_duration_since(now + cost(most) * most);
        if most > 0 && missing.is_zero() {
            each.insert(key.id.clone(), full);
            return Ok(());
        }
        let detail = format!("this key starts at most {most} executions a minute (ceilings.rates.executionsPerMinute)");
        Err(Error::new(Code::RateLimited, detail).retry_after(seconds(if most > 0 { missing } else { WINDOW })))
    }

    /// What is in the key's bucket; nothing if it has no rate.
    pub(super) fn state(&self, key: &Key, now: Instant) -> Option<RateState> {
        let most = key.executions_per_minute()?;
        let until_full = self.0.lock().get(&key.id).map_or(Duration::ZERO, |full| full.saturating_duration_since(now));
        let cost = cost(most);
        let lacking = u32::try_from(until_full.as_nanos().div_ceil(cost.as_nanos())).unwrap_or(u32::MAX).min(most);
        let next = (lacking > 0).then(|| seconds(until_full.saturating_sub(cost * (lacking - 1))));
        Some(RateState { per_minute: most, left: most - lacking, next_s: next })
    }
}

/// In what time one execution comes into the bucket.
fn cost(most: u32) -> Duration {
    WINDOW / most.max(1)
}

/// Whole seconds that are not less, and at least one.
fn seconds(time: Duration) -> u32 {
    let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(whole).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::budgets::tests::key;
    use super::*;
    use crate::model::{Ceilings, Rates as Ceiling};

    fn limited(most: u32) -> Key {
        let rates = Ceiling { executions_per_minute: Some(most) };
        key(Ceilings { rates, ..Ceilings::default() })
    }

    #[test]
    fn a_bucket_gives_what_it_holds_and_is_filled_evenly() {
        let (rates, key, start) = (Rates::default(), limited(4), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        for left in [3, 2, 1, 0] {
            rates.take(&key, start).unwrap();
            assert_eq!(rates.state(&key, start).unwrap(), RateState { per_minute: 4, left, next_s: Some(15) });
        }
        let refused = rates.take(&key, at(5)).unwrap_err();
        assert_eq!((refused.code, refused.retry_after_s), (Code::RateLimited, Some(10)));
        assert_eq!(rates.state(&key, at(5)).unwrap().next_s, Some(10));
        rates.take(&key, at(15)).unwrap();
        assert!(rates.take(&key, at(15)).is_err());
        assert_eq!(rates.state(&key, at(1000)).unwrap(), RateState { per_minute: 4, left: 4, next_s: None });
        for _ in 0..4 {
            rates.take(&key, at(1000)).unwrap();
        }
        assert!(rates.take(&key, at(1000)).is_err());
    }

    #[test]
    fn each_key_has_a_bucket_of_its_own_and_who_has_no_rate_has_none() {
        let (rates, now) = (Rates::default(), Instant::now());
        let (one, other) = (limited(1), limited(1));
        rates.take(&one, now).unwrap();
        assert!(rates.take(&one, now).is_err());
        rates.take(&other, now).unwrap();
        let free = key(Ceilings::default());
        for _ in 0..100 {
            rates.take(&free, now).unwrap();
        }
        assert_eq!(rates.state(&free, now), None);
        assert_eq!(rates.0.lock().len(), 2);
        for most in [7, 60_000, u32::MAX] {
            let key = limited(most);
            rates.take(&key, now).unwrap();
            assert_eq!(rates.state(&key, now).unwrap().left, most - 1);
        }
    }
}
