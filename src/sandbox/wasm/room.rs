//! Places in the pool, so that it is never found exhausted.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model::{Code, Error};

/// What there is room for. Admission lets in no more than that, but a guest whose caller left
/// takes a moment to be gone, and a machine may have less address space than the pool wants.
pub(super) struct Room {
    instances: Arc<Semaphore>,
    memories: Arc<Semaphore>,
    most: u32,
}

/// Room for one instance; to be held until its store is gone.
pub(super) struct Taken(#[expect(dead_code, reason = "held for its drop")] [OwnedSemaphorePermit; 2]);

impl Room {
    /// Room for `instances` with `memories` among them.
    pub(super) fn new(instances: u32, memories: u32) -> Self {
        let permits = |count| Arc::new(Semaphore::new(count as usize));
        Self { instances: permits(instances.max(1)), memories: permits(memories), most: memories }
    }

    /// Takes room for an instance with this many memories, and waits for it until `deadline`.
    ///
    /// # Errors
    ///
    /// `unavailable` if there was none.
    pub(super) async fn take(&self, memories: u32, deadline: Instant) -> Result<Taken, Error> {
        let both = async {
            let instance = Arc::clone(&self.instances).acquire_owned().await;
            (instance, Arc::clone(&self.memories).acquire_many_owned(memories.min(self.most)).await)
        };
        match tokio::time::timeout_at(deadline.into(), both).await {
            Ok((Ok(instance), Ok(memories))) => Ok(Taken([instance, memories])),
            _ => Err(none()),
        }
    }
}

/// The error for a guest that found no room.
pub(super) fn none() -> Error {
    Error::new(Code::Unavailable, "the host had no room for another instance; try again")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn who_finds_no_room_waits_for_it() {
        let room = Room::new(2, 8);
        let soon = || Instant::now() + Duration::from_millis(20);
        let first = room.take(8, soon()).await.unwrap();
        assert_eq!(room.take(1, soon()).await.err().unwrap().code, Code::Unavailable);
        let far = Instant::now() + Duration::from_secs(60);
        let (second, ()) = tokio::join!(room.take(1, far), async { drop(first) });
        assert!(second.is_ok());
    }
}
