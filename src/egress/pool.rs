//! Places for connections in use, and connections that wait for their next request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model::OwnerId;

use super::connection::Connection;
use super::target::Origin;

/// Requests under way at one time: of all owners, and of one.
const IN_USE: usize = 512;
const IN_USE_PER_OWNER: usize = 64;
/// Look-ups at one time, each of which holds a thread: of all owners, and of one.
const LOOK_UPS: usize = 64;
const LOOK_UPS_PER_OWNER: usize = 8;
/// Connections that wait: of all owners, and of one.
const IDLE: usize = 256;
const IDLE_PER_OWNER: usize = 64;
/// How long a connection waits for its next request.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a connection may take to be ready again after its last response.
const READY: Duration = Duration::from_millis(50);

/// A request under way; its place is free again when this is dropped.
pub(super) struct Place {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// What each owner has, and all have together.
pub(super) struct Pool {
    in_use: Arc<Semaphore>,
    look_ups: Arc<Semaphore>,
    idle: Arc<Semaphore>,
    owners: Mutex<HashMap<OwnerId, Arc<Owner>>>,
}

/// What one owner has.
pub(super) struct Owner {
    in_use: Arc<Semaphore>,
    look_ups: Arc<Semaphore>,
    idle: Mutex<HashMap<Origin, Vec<Idle>>>,
}

/// A connection that waits.
struct Idle {
    connection: Connection,
    since: Instant,
    _place: OwnedSemaphorePermit,
}

impl Idle {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < PATIENCE && !self.connection.sender.is_closed()
    }
}

impl Pool {
    pub(super) fn new() -> Self {
        Self {
            in_use: Arc::new(Semaphore::new(IN_USE)),
            look_ups: Arc::new(Semaphore::new(LOOK_UPS)),
            idle: Arc::new(Semaphore::new(IDLE)),
            owners: Mutex::default(),
        }
    }

    /// The part of one owner.
    pub(super) fn owner(&self, owner: &OwnerId) -> Arc<Owner> {
        let mut owners = self.owners.lock();
        if let Some(found) = owners.get(owner) {
            return Arc::clone(found);
        }
        let new = Arc::new(Owner {
            in_use: Arc::new(Semaphore::new(IN_USE_PER_OWNER)),
            look_ups: Arc::new(Semaphore::new(LOOK_UPS_PER_OWNER)),
            idle: Mutex::default(),
        });
        owners.insert(owner.clone(), Arc::clone(&new));
        new
    }

    /// Waits for a place; the owner's own places come first, so that nobody waits for one
    /// who has more than his share.
    pub(super) async fn place(&self, owner: &Owner) -> Option<Place> {
        let own = Arc::clone(&owner.in_use).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.in_use).acquire_owned().await.ok()?;
        Some(Place { _own: own, _all: all })
    }

    /// Waits until a name may be looked up.
    pub(super) async fn look_up(&self, owner: &Owner) -> Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)> {
        let own = Arc::clone(&owner.look_ups).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.look_ups).acquire_owned().await.ok()?;
        Some((own, all))
    }

    /// Keeps a connection for the owner's next request to the same place.
    pub(super) fn keep(&self, owner: &Owner, origin: Origin, connection: Connection) {
        let Ok(place) = Arc::clone(&self.idle).try_acquire_owned() else { return };
        let mut idle = owner.idle.lock();
        let own: usize = idle.values().map(Vec::len).sum();
        if own < IDLE_PER_OWNER && !connection.sender.is_closed() {
            let since = Instant::now();
            idle.entry(origin).or_default().push(Idle { connection, since, _place: place });
        }
    }

    /// Closes what waited for too long, and forgets owners who have nothing.
    pub(super) fn sweep(&self) {
        self.owners.lock().retain(|_, owner| {
            let mut idle = owner.idle.lock();
            idle.retain(|_, waiting| {
                waiting.retain(Idle::is_fresh);
                !waiting.is_empty()
            });
            let has_idle = !idle.is_empty();
            drop(idle);
            // Whoever has a request under way has the owner's part in hand.
            has_idle || Arc::strong_count(owner) > 1
        });
    }
}

impl Owner {
    /// A connection of this owner that can be used again.
    pub(super) async fn reuse(&self, origin: &Origin) -> Option<Connection> {
        loop {
            let mut idle = self.idle.lock().get_mut(origin)?.pop()?;
            let ready = tokio::time::timeout(READY, idle.connection.sender.ready());
            if matches!(ready.await, Ok(Ok(()))) && idle.is_fresh() {
                return Some(idle.connection);
            }
        }
    }
}
