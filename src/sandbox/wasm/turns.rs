//! Owners' shares of an engine that has room for fewer than the host admits.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model::{Error, OwnerId};

use super::room;

/// A turn, which ends when it is dropped.
pub(super) type Turn = OwnedSemaphorePermit;

/// How many of each owner's runs may be there at one time: one owner's keep nobody else's out.
pub(super) struct Turns {
    most: usize,
    each: Mutex<HashMap<OwnerId, Weak<Semaphore>>>,
}

impl Turns {
    /// At most so many of each owner.
    pub(super) fn new(most: u32) -> Self {
        Self { most: (most as usize).max(1), each: Mutex::default() }
    }

    /// Waits for a turn until `deadline`; it ends when the answer is dropped. One that `depth` others
    /// wait for does not wait for a turn, which they may have: it gets none if there is none at once.
    ///
    /// # Errors
    ///
    /// `unavailable` if there was none.
    pub(super) async fn take(&self, owner: &OwnerId, depth: usize, deadline: Instant) -> Result<Option<Turn>, Error> {
        let turns = self.of(owner);
        if depth > 0 {
            return Ok(turns.try_acquire_owned().ok());
        }
        match tokio::time::timeout_at(deadline.into(), turns.acquire_owned()).await {
            Ok(Ok(turn)) => Ok(Some(turn)),
            _ => Err(room::none()),
        }
    }

    fn of(&self, owner: &OwnerId) -> Arc<Semaphore> {
        let mut each = self.each.lock();
        each.get(owner).and_then(Weak::upgrade).unwrap_or_else(|| {
            each.retain(|_, turns| turns.strong_count() > 0);
            let turns = Arc::new(Semaphore::new(self.most));
            each.insert(owner.clone(), Arc::downgrade(&turns));
            turns
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn an_owner_waits_for_its_own_runs_and_for_nobody_elses() {
        let (turns, soon) = (Turns::new(1), || Instant::now() + Duration::from_millis(20));
        let owner = |name: &str| -> OwnerId { name.parse().unwrap() };
        let first = turns.take(&owner("a"), 0, soon()).await.unwrap();
        assert!(turns.take(&owner("a"), 0, soon()).await.is_err());
        assert!(turns.take(&owner("b"), 0, soon()).await.is_ok());
        // One that is waited for has one of its own if there is one, and else goes on without.
        let called = turns.take(&owner("b"), 1, soon()).await.unwrap();
        assert!(called.is_some());
        assert!(turns.take(&owner("b"), 0, soon()).await.is_err());
        assert!(turns.take(&owner("b"), 2, soon()).await.unwrap().is_none());
        drop((first, called));
        assert!(turns.take(&owner("a"), 0, soon()).await.is_ok());
        assert!(turns.each.lock().len() <= 2);
    }
}
