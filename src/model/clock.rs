//! Where the time of day comes from, so that tests can set it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// The time of day: the system's, or one that a test moves by hand.
///
/// Deadlines use [`std::time::Instant`] instead: a clock that is set back must not
/// give a guest more time.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The clock of this machine.
    #[default]
    System,
    /// Milliseconds since the Unix epoch, moved by whoever holds the other end.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// Now, in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        match self {
            Self::System => Timestamp::now().as_millisecond(),
            Self::Manual(ms) => ms.load(Ordering::Relaxed),
        }
    }

    /// A time of [`Clock::now_ms`] as RFC 3339 in UTC, with milliseconds.
    pub fn rfc3339(ms: i64) -> String {
        match Timestamp::from_millisecond(ms) {
            Ok(time) => format!("{time:.3}"),
            Err(_) => String::from("invalid"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc3339_in_utc_with_milliseconds() {
        assert_eq!(Clock::rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(Clock::rfc3339(1_796_012_345_678), "2026-11-30T04:19:05.678Z");
    }
}
