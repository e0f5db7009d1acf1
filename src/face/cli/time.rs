//! Points in time as people give them.

use jiff::Timestamp;

use crate::config::parse_duration;
use crate::model::Clock;

use super::exit::Failure;

/// Which way from now a duration leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Into the past.
    Ago,
    /// Into the future.
    Ahead,
}

/// Reads an RFC 3339 time, or a duration from now, as an RFC 3339 time.
pub(super) fn point(text: &str, direction: Direction, now_ms: i64) -> Result<String, Failure> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Clock::rfc3339(time.as_millisecond()));
    }
    let distance = parse_duration(text).and_then(|time| i64::try_from(time.as_millis()).ok());
    let moved = distance.and_then(|ms| match direction {
        Direction::Ago => now_ms.checked_sub(ms),
        Direction::Ahead => now_ms.checked_add(ms),
    });
    moved.filter(|ms| Timestamp::from_millisecond(*ms).is_ok()).map(Clock::rfc3339).ok_or_else(|| {
        Failure::usage(format!(
            "{text:?} is neither a duration such as 30m, 24h or 90d nor a time such as 2027-01-31T12:00:00Z"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_times_are_read() {
        let now = 1_796_012_345_678;
        assert_eq!(point("1h", Direction::Ago, now).unwrap(), "2026-11-30T03:19:05.678Z");
        assert_eq!(point("1d", Direction::Ahead, now).unwrap(), "2026-12-01T04:19:05.678Z");
        assert_eq!(point("2027-01-31T12:00:00+01:00", Direction::Ago, now).unwrap(), "2027-01-31T11:00:00.000Z");
        for bad in ["", "yesterday", "2027-01-31", "99999999999w"] {
            assert!(point(bad, Direction::Ago, now).is_err(), "{bad}");
        }
    }
}
