//! Failed authentications in the audit: the first of a time at once, the others of that time as one
//! number, so that a flood fills no disk.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Records are at least this far apart.
const APART: Duration = Duration::from_secs(10);

/// What is to be written down.
#[derive(Default)]
pub(super) struct Failures(Mutex<State>);

#[derive(Default)]
struct State {
    /// When the last record was made.
    last: Option<Instant>,
    /// How many came after it.
    unwritten: i64,
}

impl Failures {
    /// Counts one; gives how many to write down now, if any.
    pub(super) fn count(&self, now: Instant) -> Option<i64> {
        let mut state = self.0.lock();
        state.unwritten += 1;
        take(&mut state, now)
    }

    /// How many of before are to be written down by now, if any.
    pub(super) fn due(&self, now: Instant) -> Option<i64> {
        take(&mut self.0.lock(), now)
    }

    /// All that are not written down.
    pub(super) fn rest(&self) -> Option<i64> {
        let unwritten = std::mem::take(&mut self.0.lock().unwritten);
        Some(unwritten).filter(|count| *count > 0)
    }
}

fn take(state: &mut State, now: Instant) -> Option<i64> {
    let is_early = state.last.is_some_and(|last| now.saturating_duration_since(last) < APART);
    if is_early || state.unwritten == 0 {
        return None;
    }
    state.last = Some(now);
    Some(std::mem::take(&mut state.unwritten))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_record_and_a_number_and_none_is_lost() {
        let (failures, start) = (Failures::default(), Instant::now());
        assert_eq!(failures.due(start), None);
        assert_eq!(failures.count(start), Some(1));
        for _ in 0..1000 {
            assert_eq!(failures.count(start + APART / 2), None);
        }
        assert_eq!(failures.due(start + APART / 2), None);
        assert_eq!(failures.due(start + APART), Some(1000));
        assert_eq!(failures.count(start + APART), None);
        assert_eq!((failures.rest(), failures.rest()), (Some(1), None));
    }
}
