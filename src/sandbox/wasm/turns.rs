//! Owners' shares of an engine that has room for fewer than the host admits.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model::{Error, OwnerId};

use super::room;

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

    /// Waits for a turn until `deadline`; it ends when the answer is dropped.
    ///
    /// # Errors
    ///
    /// `unavailable` if there was none.
    pub(super) async fn take(&self, owner: &OwnerId, deadline: Instant) -> Result<OwnedSemaphorePermit, Error> {
        let turns = self.of(owner);
        match tokio::time::timeout_at(deadline.into(), turns.acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
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
        let first = turns.take(&owner("a"), soon()).await.unwrap();
        assert!(turns.take(&owner("a"), soon()).await.is_err());
        assert!(turns.take(&owner("b"), soon()).await.is_ok());
        drop(first);
        assert!(turns.take(&owner("a"), soon()).await.is_ok());
        assert!(turns.each.lock().len() <= 2);
    }
}
