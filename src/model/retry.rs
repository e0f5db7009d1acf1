//! When a skill is tried again (SPEC §3, §5).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Code, Error};

/// Most times that a run is tried again.
const MAX_RETRIES: u32 = 10;
/// Longest time before the first of these, in milliseconds.
const MAX_BACKOFF_MS: u64 = 60_000;
/// The same, if nothing is said.
const DEFAULT_BACKOFF_MS: u64 = 200;

/// A class of failures after which a skill may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RetryOn {
    /// The attempt ran out of time (`limits.attemptTimeoutMs`), and the run has some left.
    Timeout,
    /// The guest trapped.
    Trap,
    /// A resource was lost.
    Unavailable,
}

/// When a skill is tried again, as it was asked for: what is not said is as it was before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RetryPatch {
    /// How often at most.
    pub max_retries: Option<u32>,
    /// After which failures.
    pub on: Option<Vec<RetryOn>>,
    /// How long to wait before the first time; twice as long before each other, and up to half of
    /// that less, by chance.
    pub backoff_ms: Option<u64>,
}

/// When a skill is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// How often at most, 0 to 10.
    pub max_retries: u32,
    /// After which failures.
    pub on: Vec<RetryOn>,
    /// How long to wait before the first time, in milliseconds, 0 to 60,000.
    pub backoff_ms: u64,
}

impl Default for Retry {
    fn default() -> Self {
        let on = vec![RetryOn::Timeout, RetryOn::Trap, RetryOn::Unavailable];
        Self { max_retries: 0, on, backoff_ms: DEFAULT_BACKOFF_MS }
    }
}

impl RetryPatch {
    /// Refuses what is out of bounds, with `code` and a pointer below `place`.
    ///
    /// # Errors
    ///
    /// `code`, naming the first such field.
    pub fn check(&self, place: &str, code: Code) -> Result<(), Error> {
        if self.max_retries.is_some_and(|retries| retries > MAX_RETRIES) {
            let detail = format!("a run is tried again at most {MAX_RETRIES} times");
            return Err(Error::at(code, format!("{place}/maxRetries"), detail));
        }
        if self.backoff_ms.is_some_and(|ms| ms > MAX_BACKOFF_MS) {
            let detail = format!("must be at most {MAX_BACKOFF_MS}");
            return Err(Error::at(code, format!("{place}/backoffMs"), detail));
        }
        Ok(())
    }

    /// The policy with what this says.
    pub fn over(&self, policy: &Retry) -> Retry {
        Retry {
            max_retries: self.max_retries.unwrap_or(policy.max_retries),
            on: self.on.clone().unwrap_or_else(|| policy.on.clone()),
            backoff_ms: self.backoff_ms.unwrap_or(policy.backoff_ms),
        }
    }
}

impl Retry {
    /// How long to wait after attempt number `attempt` (from 1) that failed with `code`; nothing if
    /// it is not tried again. `chance` is anything from 0 to 1.
    pub fn wait(&self, attempt: u32, code: Code, chance: f64) -> Option<Duration> {
        let class = match code {
            Code::Timeout => RetryOn::Timeout,
            Code::Trap => RetryOn::Trap,
            Code::Unavailable => RetryOn::Unavailable,
            _ => return None,
        };
        if attempt > self.max_retries || !self.on.contains(&class) {
            return None;
        }
        let longest = Duration::from_millis(self.backoff_ms).saturating_mul(1 << (attempt - 1).min(MAX_RETRIES));
        Some(longest.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0))
    }
}

/// An attempt that failed and was followed by another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlierAttempt {
    /// Which, from 1.
    pub attempt: u32,
    /// Why it failed.
    pub code: String,
    /// The same in words.
    pub message: String,
    /// Fuel that it used.
    pub fuel: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_end() {
        let retry = Retry { max_retries: 3, on: vec![RetryOn::Trap], backoff_ms: 100 };
        let waits: Vec<_> = (1..6).map(|attempt| retry.wait(attempt, Code::Trap, 0.0).map(|d| d.as_millis())).collect();
        assert_eq!(waits, [Some(100), Some(200), Some(400), None, None]);
        assert_eq!(retry.wait(1, Code::Trap, 1.0), Some(Duration::from_millis(50)));
        assert_eq!(retry.wait(1, Code::Timeout, 0.0), None);
        assert_eq!(retry.wait(1, Code::Cancelled, 0.0), None);
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        let wrong = RetryPatch { max_retries: Some(11), ..RetryPatch::default() };
        let error = wrong.check("/retry", Code::Malformed).unwrap_err();
        assert_eq!(error.fields[0].pointer, "/retry/maxRetries");
    }
}
