//! How much of what is sent to it the host holds at one time: bodies in memory, unfinished
//! uploads on the disk.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::model::{Code, Error, OwnerId};

/// Most bytes of bodies in memory at one time.
const BODIES: u64 = 512 << 20;
/// Most bytes of one owner's bodies in memory at one time.
const BODIES_PER_OWNER: u64 = 128 << 20;
/// Uploads of the largest size that may be under way at one time.
const UPLOADS: u64 = 32;
/// Uploads of the largest size that may be under way for one owner.
const UPLOADS_PER_OWNER: u64 = 8;

/// Counts the bytes of what is being read or waits.
#[derive(Clone)]
pub(crate) struct Held {
    bounds: Bounds,
    counts: Arc<Mutex<Counts>>,
}

/// How many bytes are held at most, and what those are told who want to send more.
#[derive(Clone, Copy)]
struct Bounds {
    all: u64,
    each: u64,
    all_taken: &'static str,
    each_taken: &'static str,
}

#[derive(Default)]
struct Counts {
    all: u64,
    each: HashMap<OwnerId, u64>,
}

/// Room for one body; given back when dropped.
pub(super) struct Room {
    held: Held,
    owner: OwnerId,
    bytes: u64,
}

impl Held {
    /// For bodies that are being read, wait for a place, or run: they are in memory.
    pub(super) fn bodies() -> Self {
        Self::new(Bounds {
            all: BODIES,
            each: BODIES_PER_OWNER,
            all_taken: "the host holds as many requests as it has memory for",
            each_taken: "your requests that wait or run have too many bytes",
        })
    }

    /// For uploads that are under way, each of at most `largest` bytes: they are on the disk.
    pub(super) fn uploads(largest: u64) -> Self {
        Self::new(Bounds {
            all: largest.saturating_mul(UPLOADS),
            each: largest.saturating_mul(UPLOADS_PER_OWNER),
            all_taken: "the host has as many uploads under way as it has room for",
            each_taken: "your uploads that are under way have too many bytes; send fewer at a time",
        })
    }

    fn new(bounds: Bounds) -> Self {
        Self { bounds, counts: Arc::default() }
    }

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
        let bytes = bytes as u64;
        let bounds = self.held.bounds;
        let mut counts = self.held.counts.lock();
        let own = counts.each.get(&self.owner).copied().unwrap_or_default();
        if counts.all + bytes > bounds.all {
            return Err(Error::new(Code::Overloaded, bounds.all_taken));
        }
        if own + bytes > bounds.each {
            return Err(Error::new(Code::QueueFull, bounds.each_taken));
        }
        counts.all += bytes;
        counts.each.insert(self.owner.clone(), own + bytes);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut counts = self.held.counts.lock();
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

    const HOST: usize = 4000;
    const PER_OWNER: usize = 1000;

    fn held() -> Held {
        Held::new(Bounds { all: HOST as u64, each: PER_OWNER as u64, all_taken: "all", each_taken: "each" })
    }

    #[test]
    fn one_owner_cannot_take_all_the_room_and_gives_back_what_it_took() {
        let held = held();
        let (a, b): (OwnerId, OwnerId) = ("a".parse().unwrap(), "b".parse().unwrap());
        let mut first = held.room(&a);
        first.grow(PER_OWNER).unwrap();
        assert_eq!(held.room(&a).grow(1).unwrap_err().code, Code::QueueFull);
        held.room(&b).grow(PER_OWNER).unwrap();
        drop(first);
        held.room(&a).grow(PER_OWNER).unwrap();
        assert!(held.counts.lock().each.is_empty());
    }

    #[test]
    fn the_host_holds_no_more_than_it_may() {
        let held = held();
        let rooms: Vec<_> = (0..HOST / PER_OWNER)
            .map(|n| {
                let mut room = held.room(&format!("owner-{n}").parse().unwrap());
                room.grow(PER_OWNER).unwrap();
                room
            })
            .collect();
        assert_eq!(held.room(&"z".parse().unwrap()).grow(1).unwrap_err().code, Code::Overloaded);
        drop(rooms);
        assert_eq!(held.counts.lock().all, 0);
    }
}
