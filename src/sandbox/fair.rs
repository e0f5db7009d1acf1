//! Places, shared out evenly between owners: who has the fewest gets the next one, and among those with
//! as many, who got its last one the longest ago.
//!
//! Nobody waits as long as a place is free, and then none of this costs more than a look.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::model::OwnerId;

/// All places, and the lines of those who wait for one. `W` wakes who waits.
pub struct Fair<W> {
    places: usize,
    per_owner: usize,
    taken: usize,
    waiting: usize,
    /// Counts what happens, to say what was earlier.
    time: u64,
    owners: HashMap<OwnerId, Line<W>>,
    /// Owners that wait and may have another place, whose turn is next first.
    ready: BTreeSet<(Rank, OwnerId)>,
}

/// Places that an owner has, and when it got the last one, or came.
type Rank = (usize, u64);

/// One owner's places, and who of it waits.
struct Line<W> {
    taken: usize,
    last: u64,
    /// Whether it gets no further place for now.
    barred: bool,
    /// By the time when they came.
    waiting: BTreeMap<u64, W>,
    /// As the owner stands among those that are ready.
    rank: Option<Rank>,
}

impl<W> Fair<W> {
    /// So many places, and at most so many for one owner.
    pub fn new(places: usize, per_owner: usize) -> Self {
        let (owners, ready) = (HashMap::new(), BTreeSet::new());
        Self { places, per_owner, taken: 0, waiting: 0, time: 0, owners, ready }
    }

    /// How many places are taken, and how many wait.
    pub fn counts(&self) -> (usize, usize) {
        (self.taken, self.waiting)
    }

    /// Takes a place for an owner, if it may have one now.
    pub fn take(&mut self, owner: &OwnerId) -> bool {
        if self.taken >= self.places {
            return false;
        }
        let (per_owner, time) = (self.per_owner, self.time);
        let line = self.owners.entry(owner.clone()).or_insert_with(|| Line::new(time));
        if line.taken >= per_owner || line.barred {
            return false;
        }
        self.time += 1;
        line.taken += 1;
        line.last = time;
        self.taken += 1;
        true
    }

    /// How many of an owner wait.
    pub fn waiting(&self, owner: &OwnerId) -> usize {
        self.owners.get(owner).map_or(0, |line| line.waiting.len())
    }

    /// Lines up one that could not [`take`](Self::take) a place, and gives its number.
    pub fn line_up(&mut self, owner: &OwnerId, waker: W) -> u64 {
        let time = self.time;
        self.time += 1;
        self.owners.entry(owner.clone()).or_insert_with(|| Line::new(time)).waiting.insert(time, waker);
        self.waiting += 1;
        self.settle(owner);
        time
    }

    /// Gives a place back, and to the next who waits.
    pub fn leave(&mut self, owner: &OwnerId) -> Option<W> {
        self.give_back(owner);
        self.serve().map(|(_, waker)| waker)
    }

    /// Whether an owner that is here gets no further place for now.
    pub fn bar(&mut self, owner: &OwnerId, barred: bool) {
        if let Some(line) = self.owners.get_mut(owner) {
            line.barred = barred;
        }
        self.settle(owner);
    }

    /// Gives a place back, to nobody yet; gives how many its owner still has.
    pub fn give_back(&mut self, owner: &OwnerId) -> usize {
        let Some(line) = self.owners.get_mut(owner) else { return 0 };
        line.taken -= 1;
        self.taken -= 1;
        let left = line.taken;
        self.settle(owner);
        left
    }

    /// Gives a free place to the next who waits.
    pub fn serve(&mut self) -> Option<(OwnerId, W)> {
        if self.taken >= self.places {
            return None;
        }
        let (_, next) = self.ready.first()?.clone();
        let line = self.owners.get_mut(&next)?;
        let (_, waker) = line.waiting.pop_first()?;
        line.taken += 1;
        line.last = self.time;
        self.time += 1;
        self.taken += 1;
        self.waiting -= 1;
        self.settle(&next);
        Some((next, waker))
    }

    /// Takes one that waits out of its line; says no if it has a place already.
    pub fn give_up(&mut self, owner: &OwnerId, number: u64) -> bool {
        let line = self.owners.get_mut(owner);
        let waited = line.is_some_and(|line| line.waiting.remove(&number).is_some());
        self.waiting -= usize::from(waited);
        self.settle(owner);
        waited
    }

    /// Puts an owner where it now belongs among those that are ready, or forgets it.
    fn settle(&mut self, owner: &OwnerId) {
        let Some(line) = self.owners.get_mut(owner) else { return };
        let ready = !line.waiting.is_empty() && line.taken < self.per_owner && !line.barred;
        let rank = ready.then_some((line.taken, line.last));
        if line.rank != rank {
            let old = std::mem::replace(&mut line.rank, rank);
            old.map(|old| self.ready.remove(&(old, owner.clone())));
            rank.map(|new| self.ready.insert((new, owner.clone())));
        }
        if line.taken == 0 && line.waiting.is_empty() {
            self.owners.remove(owner);
        }
    }
}

impl<W> Line<W> {
    fn new(time: u64) -> Self {
        Self { taken: 0, last: time, barred: false, waiting: BTreeMap::new(), rank: None }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn owner(name: &str) -> OwnerId {
        name.parse().unwrap()
    }

    /// Takes a place, or waits for one with its number as the answer.
    fn enter<W>(fair: &mut Fair<W>, name: &str, waker: W) -> Option<u64> {
        let owner = owner(name);
        if fair.take(&owner) { None } else { Some(fair.line_up(&owner, waker)) }
    }

    #[test]
    fn who_comes_beside_a_long_line_of_another_has_the_next_place() {
        let mut fair = Fair::new(2, 2);
        for _ in 0..2 {
            assert_eq!(enter(&mut fair, "a", "a"), None);
        }
        for _ in 0..500 {
            enter(&mut fair, "a", "a").unwrap();
        }
        enter(&mut fair, "b", "b").unwrap();
        assert_eq!(fair.leave(&owner("a")), Some("b"));
        assert_eq!(fair.leave(&owner("b")), Some("a"));
        assert_eq!(fair.counts(), (2, 499));
    }

    #[test]
    fn owners_that_all_wait_have_as_many_places_and_turns_each() {
        let mut fair = Fair::new(3, 3);
        let names = ["a", "b", "c"];
        for _ in 0..3 {
            enter(&mut fair, "a", "a");
        }
        for name in names {
            for _ in 0..100 {
                enter(&mut fair, name, name).unwrap();
            }
        }
        // One that had all of them gives them back one by one.
        assert_eq!([fair.leave(&owner("a")), fair.leave(&owner("a"))], [Some("b"), Some("c")]);
        let (mut order, mut runs) = (Vec::new(), VecDeque::from(names));
        while let Some(ended) = runs.pop_front() {
            let next = fair.leave(&owner(ended));
            runs.extend(next);
            order.extend(next);
        }
        assert_eq!(order.len(), 298);
        for turns in order.chunks(3).take(98) {
            assert!(names.iter().all(|name| turns.contains(name)), "{order:?}");
        }
        assert!(fair.owners.is_empty() && fair.ready.is_empty() && fair.counts() == (0, 0));
    }

    #[test]
    fn an_owner_with_all_its_places_waits_and_holds_up_nobody() {
        let mut fair = Fair::new(3, 1);
        assert_eq!(enter(&mut fair, "a", "a"), None);
        enter(&mut fair, "a", "a").unwrap();
        assert_eq!(enter(&mut fair, "b", "b"), None);
        assert_eq!(fair.leave(&owner("b")), None);
        assert_eq!(fair.leave(&owner("a")), Some("a"));
    }

    #[test]
    fn who_gives_up_leaves_the_line_and_a_place_that_came_meanwhile_is_not_lost() {
        let (mut fair, a) = (Fair::new(1, 1), owner("a"));
        enter(&mut fair, "a", "first");
        let second = enter(&mut fair, "a", "second").unwrap();
        let third = enter(&mut fair, "a", "third").unwrap();
        assert!(fair.give_up(&a, second));
        assert_eq!(fair.leave(&a), Some("third"));
        assert!(!fair.give_up(&a, third));
        assert_eq!(fair.leave(&a), None);
        assert!(fair.owners.is_empty() && fair.ready.is_empty() && fair.counts() == (0, 0));
    }

    #[test]
    fn who_is_barred_waits_although_there_is_a_place_until_that_ends() {
        let (mut fair, a) = (Fair::new(3, 3), owner("a"));
        enter(&mut fair, "a", "first");
        fair.bar(&a, true);
        enter(&mut fair, "a", "second").unwrap();
        assert_eq!((enter(&mut fair, "b", "b"), fair.serve()), (None, None));
        fair.bar(&a, false);
        assert_eq!(fair.serve(), Some((a, "second")));
    }

    #[test]
    fn who_waits_is_not_passed_over_for_ever_by_those_who_come_later() {
        let mut fair = Fair::new(1, 1);
        enter(&mut fair, "a", "a");
        enter(&mut fair, "z", "z").unwrap();
        enter(&mut fair, "b", "b").unwrap();
        assert_eq!(fair.leave(&owner("a")), Some("z"));
        enter(&mut fair, "a", "a").unwrap();
        assert_eq!(fair.leave(&owner("z")), Some("b"));
    }
}
