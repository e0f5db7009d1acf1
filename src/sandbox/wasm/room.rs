//! Places in the pool, so that it is never found exhausted.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::model::{Code, Error};
use crate::sandbox::MAX_CALL_DEPTH;

/// How deep runs that wait for each other can be; one that a request started is at 0.
pub(super) const DEPTHS: u32 = MAX_CALL_DEPTH;
/// Memories that are kept back for each depth: what one component has at most.
const MEMORIES: u32 = 8;

/// What there is room for. Admission lets in no more than that, but a guest whose caller left
/// takes a moment to be gone, and a machine may have less address space than the pool wants.
pub(super) struct Room {
    all: Part,
    /// Room for one instance at each depth, for when all other room is taken by those that wait: it
    /// is only ever held by one who waits for deeper ones at most, so that somebody always goes on.
    deeper: Vec<Part>,
}

/// Instances and the memories in them.
struct Part {
    instances: Arc<Semaphore>,
    memories: Arc<Semaphore>,
    most: u32,
}

/// Room for one instance; to be held until its store is gone.
pub(super) struct Taken(#[expect(dead_code, reason = "held for its drop")] [OwnedSemaphorePermit; 2]);

impl Part {
    fn new(instances: u32, memories: u32) -> Self {
        let permits = |count| Arc::new(Semaphore::new(count as usize));
        Self { instances: permits(instances), memories: permits(memories), most: memories }
    }

    fn take_now(&self, memories: u32) -> Option<Taken> {
        let instance = Arc::clone(&self.instances).try_acquire_owned().ok()?;
        let memories = Arc::clone(&self.memories).try_acquire_many_owned(memories.min(self.most)).ok()?;
        Some(Taken([instance, memories]))
    }

    async fn take_until(&self, memories: u32, deadline: Instant) -> Result<Taken, Error> {
        match tokio::time::timeout_at(deadline.into(), self.take(memories)).await {
            Ok(Ok(taken)) => Ok(taken),
            _ => Err(none()),
        }
    }

    async fn take(&self, memories: u32) -> Result<Taken, AcquireError> {
        let instance = Arc::clone(&self.instances).acquire_owned().await?;
        let memories = Arc::clone(&self.memories).acquire_many_owned(memories.min(self.most)).await?;
        Ok(Taken([instance, memories]))
    }
}

impl Room {
    /// Room for `instances`, and for one more at each depth, with `memories` among all of them.
    pub(super) fn new(instances: u32, memories: u32) -> Self {
        // Where there is hardly room for anything, nothing is kept back.
        let back = if memories > DEPTHS * MEMORIES { MEMORIES } else { 0 };
        let deeper = (0..DEPTHS).filter(|_| back > 0).map(|_| Part::new(1, back)).collect();
        Self { all: Part::new(instances.max(1), memories - DEPTHS * back), deeper }
    }

    /// Whether an instance with this many memories would find room at once.
    pub(super) fn has(&self, memories: u32) -> bool {
        let Part { instances, memories: free, most } = &self.all;
        instances.available_permits() > 0 && free.available_permits() >= memories.min(*most) as usize
    }

    /// Whether there is hardly room for others.
    pub(super) fn is_tight(&self) -> bool {
        !self.has(MEMORIES)
    }

    /// Takes room for an instance with this many memories that `depth` others wait for, and waits
    /// for it until `deadline`.
    ///
    /// # Errors
    ///
    /// `unavailable` if there was none.
    pub(super) async fn take(&self, memories: u32, depth: usize, deadline: Instant) -> Result<Taken, Error> {
        if depth == 0 {
            return self.all.take_until(memories, deadline).await;
        }
        match self.all.take_now(memories) {
            Some(taken) => Ok(taken),
            None => self.take_deeper(memories, depth, deadline).await,
        }
    }

    /// The same, of what is kept back for that depth alone.
    ///
    /// # Errors
    ///
    /// `unavailable` if there was none.
    pub(super) async fn take_deeper(&self, memories: u32, depth: usize, deadline: Instant) -> Result<Taken, Error> {
        let part = depth.checked_sub(1).and_then(|at| self.deeper.get(at)).ok_or_else(none)?;
        part.take_until(memories, deadline).await
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
        let first = room.take(8, 0, soon()).await.unwrap();
        assert_eq!(room.take(1, 0, soon()).await.err().unwrap().code, Code::Unavailable);
        let far = Instant::now() + Duration::from_secs(60);
        let (second, ()) = tokio::join!(room.take(1, 0, far), async { drop(first) });
        assert!(second.is_ok());
    }

    #[tokio::test]
    async fn those_that_others_wait_for_find_room_when_all_is_taken() {
        let room = Room::new(1, 2 * DEPTHS * MEMORIES);
        let far = Instant::now() + Duration::from_secs(60);
        let mut chain = vec![room.take(1, 0, far).await.unwrap()];
        for depth in 1..=DEPTHS as usize {
            chain.push(room.take(MEMORIES, depth, far).await.unwrap());
        }
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(room.take(1, 1, soon).await.err().unwrap().code, Code::Unavailable);
        assert_eq!(room.take(1, DEPTHS as usize + 1, soon).await.err().unwrap().code, Code::Unavailable);
        chain.remove(0);
        assert_eq!(room.take_deeper(1, 3, soon).await.err().unwrap().code, Code::Unavailable);
        assert!(room.take(1, 3, soon).await.is_ok());
    }
}
