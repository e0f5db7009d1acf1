//! The memory of this machine that guests may have in use, all together and one owner's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::model::OwnerId;

/// What guests may have where the machine does not tell how much it has.
const UNKNOWN: u64 = 2 << 30;

/// Counts bytes against a limit.
#[derive(Debug)]
struct Pot {
    most: u64,
    used: AtomicU64,
}

impl Pot {
    fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, used: AtomicU64::new(0) })
    }

    fn take(&self, bytes: u64) -> bool {
        let fits = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.most);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Half of the machine's memory (or of its cgroup's) is for guests, and half of that for one
/// owner. `limits.memoryMb` bounds one run; many runs at once would still be the end of the host.
pub(super) struct Budget {
    all: Arc<Pot>,
    each: Mutex<HashMap<OwnerId, Weak<Pot>>>,
}

/// What one instance has taken; given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    all: Arc<Pot>,
    own: Arc<Pot>,
    bytes: u64,
}

impl Budget {
    /// The budget of this machine.
    pub(super) fn of_this_machine() -> Self {
        Self::new(memory_of_this_machine().map_or(UNKNOWN, |bytes| bytes / 2))
    }

    fn new(bytes: u64) -> Self {
        Self { all: Pot::new(bytes), each: Mutex::default() }
    }

    /// A share of an owner's, with nothing in it.
    pub(super) fn share(&self, owner: &OwnerId) -> Share {
        let mut each = self.each.lock();
        let own = each.get(owner).and_then(Weak::upgrade).unwrap_or_else(|| {
            each.retain(|_, pot| pot.strong_count() > 0);
            let own = Pot::new(self.all.most / 2);
            each.insert(owner.clone(), Arc::downgrade(&own));
            own
        });
        Share { all: Arc::clone(&self.all), own, bytes: 0 }
    }
}

impl Share {
    /// Takes so many bytes more, if they are there.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        if !self.own.take(bytes) {
            return false;
        }
        if !self.all.take(bytes) {
            self.own.give_back(bytes);
            return false;
        }
        self.bytes += bytes;
        true
    }
}

impl Share {
    /// Another share of the same, with nothing in it.
    pub(super) fn empty(&self) -> Self {
        Self { all: Arc::clone(&self.all), own: Arc::clone(&self.own), bytes: 0 }
    }

    /// Whether a quarter of what its owner, or all, may have is in use.
    pub(super) fn is_tight(&self) -> bool {
        let is_tight = |pot: &Pot| pot.used.load(Ordering::Relaxed) > pot.most / 4;
        is_tight(&self.own) || is_tight(&self.all)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.own.give_back(self.bytes);
        self.all.give_back(self.bytes);
    }
}

/// The memory that this process may have at most, in bytes.
fn memory_of_this_machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let machine = total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    Some(group.and_then(|text| text.trim().parse().ok()).map_or(machine, |group: u64| group.min(machine)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_cannot_take_it_all_and_everything_comes_back() {
        let budget = Budget::new(1000);
        let owner = |name: &str| -> OwnerId { name.parse().unwrap() };
        let (mut a, mut again) = (budget.share(&owner("a")), budget.share(&owner("a")));
        assert!(a.take(400) && !again.take(200) && again.take(100));
        let (mut b, mut c) = (budget.share(&owner("b")), budget.share(&owner("c")));
        assert!(b.take(500) && !c.take(1));
        drop((a, again));
        assert!(c.take(500));
        drop((b, c));
        assert_eq!(budget.all.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_machine_says_how_much_memory_it_has() {
        assert!(memory_of_this_machine().unwrap() > 64 << 20);
    }
}
