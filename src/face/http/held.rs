//! How much of request bodies the host holds in memory at one time.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::model::{Code, Error, OwnerId};

/// Most bytes of bodies at one time.
const HOST: usize = 512 << 20;
/// Most bytes of one owner's bodies at one time.
const PER_OWNER: usize = 128 << 20;

/// Counts the bytes of bodies that are being read, wait for a place, or run.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    all: usize,
    each: HashMap<OwnerId, usize>,
}

/// Room for one body; given back when dropped.
pub(super) struct Room {
    held: Held,
    owner: OwnerId,
    bytes: usize,
}

impl Held {
    /// Room for a body of this owner's, of which nothing has come.
    pub(super) fn room(&self, owner: &OwnerId) -> Room {
        Room { held: self.clone(), owner: owner.clone(), bytes: 0 }
    }
}

impl Room {
    /// Takes room for `bytes` more.
    ///
    /// # Errors
    ///
    /// `overloaded` or `queue_full` if there is none.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        let mut counts = self.held.0.lock();
        let own = counts.each.get(&self.owner).copied().unwrap_or_default();
        if counts.all + bytes > HOST {
            return Err(Error::new(Code::Overloaded, "the host holds as many requests as it has memory for"));
        }
        if own + bytes > PER_OWNER {
            return Err(Error::new(Code::QueueFull, "your requests that wait or run have too many bytes"));
        }
        counts.all += bytes;
        counts.each.insert(self.owner.clone(), own + bytes);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut counts = self.held.0.lock();
        counts.all -= self.bytes;
        let left = counts.each.get(&self.owner).copied().unwrap_or_default().saturating_sub(self.bytes);
        if left == 0 {
            counts.each.remove(&self.owner);
        } else {
            counts.each.insert(self.owner.clone(), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_cannot_take_all_the_room_and_gives_back_what_it_took() {
        let held = Held::default();
        let (a, b): (OwnerId, OwnerId) = ("a".parse().unwrap(), "b".parse().unwrap());
        let mut first = held.room(&a);
        first.grow(PER_OWNER).unwrap();
        assert_eq!(held.room(&a).grow(1).unwrap_err().code, Code::QueueFull);
        held.room(&b).grow(PER_OWNER).unwrap();
        drop(first);
        held.room(&a).grow(PER_OWNER).unwrap();
        assert!(held.0.lock().each.is_empty());
    }

    #[test]
    fn the_host_holds_no_more_than_it_may() {
        let held = Held::default();
        let rooms: Vec<_> = (0..HOST / PER_OWNER)
            .map(|n| {
                let mut room = held.room(&format!("owner-{n}").parse().unwrap());
                room.grow(PER_OWNER).unwrap();
                room
            })
            .collect();
        assert_eq!(held.room(&"z".parse().unwrap()).grow(1).unwrap_err().code, Code::Overloaded);
        drop(rooms);
        assert_eq!(held.0.lock().all, 0);
    }
}
