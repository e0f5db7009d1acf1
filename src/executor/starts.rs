//! How many runs of one owner begin at one time while others are there too.
//!
//! A run passes many hands: those that read its request, the threads of guests, the writer. In each line
//! somebody else's run stands behind all that are under way. So of an owner that is not alone, only few
//! are under way that have just begun; the others wait where the order is fair. What runs for longer is
//! computing, where slices are shared out, or waits for something, where it is in nobody's way.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::model::OwnerId;

/// For how long a run has just begun.
const YOUNG: Duration = Duration::from_millis(50);
/// For how long an owner is not alone after another one came.
const TOGETHER: Duration = Duration::from_millis(250);

/// Who has begun what just now.
pub(super) struct Starts {
    /// Of one owner, while it is not alone.
    most: usize,
    newest: Option<OwnerId>,
    /// When somebody else came than the one before.
    together: Option<Instant>,
    /// Runs that began, and have not ended or grown older since.
    young: HashMap<OwnerId, VecDeque<Instant>>,
    /// Owners that wait only for this.
    pub(super) held: BTreeSet<OwnerId>,
}

impl Starts {
    pub(super) fn new(most: usize) -> Self {
        Self { most, newest: None, together: None, young: HashMap::new(), held: BTreeSet::new() }
    }

    /// Takes note of a request.
    pub(super) fn came(&mut self, owner: &OwnerId, now: Instant) {
        match &self.newest {
            Some(newest) if newest == owner => return,
            Some(_) => self.together = Some(now),
            None => {}
        }
        self.newest = Some(owner.clone());
    }

    /// Whether one more run of this owner may begin now.
    pub(super) fn may(&mut self, owner: &OwnerId, now: Instant) -> bool {
        if self.together.is_none_or(|at| now.saturating_duration_since(at) > TOGETHER) {
            return true;
        }
        let Some(young) = self.young.get_mut(owner) else { return true };
        while young.front().is_some_and(|begun| now.saturating_duration_since(*begun) > YOUNG) {
            young.pop_front();
        }
        young.len() < self.most
    }

    /// Takes note of a run that begins.
    pub(super) fn begun(&mut self, owner: &OwnerId, now: Instant) {
        match self.young.get_mut(owner) {
            Some(young) => young.push_back(now),
            None => drop(self.young.insert(owner.clone(), VecDeque::from([now]))),
        }
    }

    /// Takes note of the end of a run that began then.
    pub(super) fn ended(&mut self, owner: &OwnerId, begun: Instant, last: bool) {
        if last {
            self.young.remove(owner);
        } else if let Some(young) = self.young.get_mut(owner)
            && let Some(at) = young.iter().position(|one| *one == begun)
        {
            young.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_alone_begins_as_much_as_there_is_and_who_is_not_only_some_at_a_time() {
        let (mut starts, start) = (Starts::new(2), Instant::now());
        let (a, b): (OwnerId, OwnerId) = ("a".parse().unwrap(), "b".parse().unwrap());
        for _ in 0..10 {
            starts.came(&a, start);
            assert!(starts.may(&a, start));
            starts.begun(&a, start);
        }
        starts.came(&b, start);
        assert!(!starts.may(&a, start) && starts.may(&b, start));
        // They have grown older, and one more has ended.
        let later = start + YOUNG + Duration::from_millis(1);
        for _ in 0..2 {
            assert!(starts.may(&a, later));
            starts.begun(&a, later);
        }
        assert!(!starts.may(&a, later));
        starts.ended(&a, later, false);
        assert!(starts.may(&a, later));
        starts.begun(&a, later);
        // The other one has not come again.
        assert!(starts.may(&a, start + TOGETHER + Duration::from_millis(1)));
        starts.ended(&a, later, true);
        assert!(starts.young.is_empty());
    }
}
