//! Room for requests that wait on their own, or run after that: they are in memory, and on the disk too.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::model::{Code, Error, OwnerId};

/// Most bytes of them, of all owners and of each.
const BYTES: u64 = 256 << 20;
pub(super) const BYTES_PER_OWNER: u64 = 64 << 20;

/// How much is taken.
#[derive(Default)]
pub(super) struct Rooms(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    all: Amount,
    each: HashMap<OwnerId, Amount>,
}

#[derive(Clone, Copy, Default)]
struct Amount {
    requests: usize,
    bytes: u64,
}

/// Room for one request; given back when dropped.
pub(super) struct Room {
    rooms: Arc<Rooms>,
    owner: OwnerId,
    bytes: u64,
}

impl Rooms {
    /// Room for a request of so many bytes, if there are fewer of the owner's than `most_own`, and
    /// fewer in all than `most`.
    ///
    /// # Errors
    ///
    /// `queue_full` if the owner's are too many or too large, `overloaded` if all are.
    pub(super) fn take(
        self: &Arc<Self>,
        owner: &OwnerId,
        bytes: u64,
        (most_own, most): (usize, usize),
    ) -> Result<Room, Error> {
        let mut taken = self.0.lock();
        let own = taken.each.get(owner).copied().unwrap_or_default();
        if taken.all.requests >= most || taken.all.bytes + bytes > BYTES {
            let detail = "the requests that wait on this host are too many or too large";
            return Err(Error::new(Code::Overloaded, detail));
        }
        if own.requests >= most_own || own.bytes + bytes > BYTES_PER_OWNER {
            return Err(Error::new(Code::QueueFull, "your requests that wait are too many or too large"));
        }
        Ok(self.taken(&mut taken, owner, bytes))
    }

    /// The same, however much is taken.
    pub(super) fn take_anyway(self: &Arc<Self>, owner: &OwnerId, bytes: u64) -> Room {
        self.taken(&mut self.0.lock(), owner, bytes)
    }

    fn taken(self: &Arc<Self>, taken: &mut Taken, owner: &OwnerId, bytes: u64) -> Room {
        taken.all.add(bytes);
        taken.each.entry(owner.clone()).or_default().add(bytes);
        Room { rooms: Arc::clone(self), owner: owner.clone(), bytes }
    }

    #[cfg(test)]
    pub(super) fn are_empty(&self) -> bool {
        let taken = self.0.lock();
        taken.all.requests == 0 && taken.all.bytes == 0 && taken.each.is_empty()
    }
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }

    fn take_out(&mut self, bytes: u64) {
        self.requests -= 1;
        self.bytes -= bytes;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut taken = self.rooms.0.lock();
        taken.all.take_out(self.bytes);
        let Some(own) = taken.each.get_mut(&self.owner) else { return };
        own.take_out(self.bytes);
        if own.requests == 0 {
            taken.each.remove(&self.owner);
        }
    }
}
