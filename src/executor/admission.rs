//! Who may run now, who waits, and who is sent away.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model::{Code, Error, OwnerId};
use crate::telemetry::Load;

/// Most bytes of requests that wait on their own, or run, of all owners and of each. They lie on the
/// disk too.
const QUEUED_BYTES: u64 = 256 << 20;
const QUEUED_BYTES_PER_OWNER: u64 = 64 << 20;

/// How many may run and wait.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionSettings {
    /// Executions that run at one time.
    pub concurrency_host: usize,
    /// Executions of one owner that run at one time.
    pub concurrency_per_owner: usize,
    /// Executions that wait.
    pub queue_host: usize,
    /// Executions of one owner that wait.
    pub queue_per_owner: usize,
}

/// The gate before every run.
pub(super) struct Admission {
    settings: AdmissionSettings,
    host: Arc<Semaphore>,
    owners: Mutex<Owners>,
}

#[derive(Default)]
struct Owners {
    waiting: usize,
    each: HashMap<OwnerId, Owner>,
    /// Bytes of requests that wait on their own.
    bytes: u64,
    bytes_each: HashMap<OwnerId, u64>,
}

struct Owner {
    places: Arc<Semaphore>,
    /// Those of this owner that wait or run.
    present: usize,
    waiting: usize,
}

/// A place among those that run; given back when dropped.
pub(super) struct Place {
    admission: Arc<Admission>,
    owner: OwnerId,
    _permits: (OwnedSemaphorePermit, OwnedSemaphorePermit),
    _bytes: Option<QueuedBytes>,
}

/// A place in the line for a request of which nobody waits for the end.
pub(super) enum Turn {
    /// It has come.
    Come(Place),
    /// It will come.
    Waits(Pin<Box<dyn Future<Output = Option<Place>> + Send>>),
}

/// Room for the bytes of such a request; given back when dropped.
struct QueuedBytes {
    admission: Arc<Admission>,
    owner: OwnerId,
    bytes: u64,
}

/// A place in the line; given back when dropped.
struct Waiting<'a> {
    admission: &'a Admission,
    owner: &'a OwnerId,
    entered: bool,
}

impl Admission {
    pub(super) fn new(settings: AdmissionSettings) -> Arc<Self> {
        let host = Arc::new(Semaphore::new(settings.concurrency_host));
        Arc::new(Self { settings, host, owners: Mutex::default() })
    }

    /// How many run and wait.
    pub(super) fn load(&self) -> Load {
        let running = self.settings.concurrency_host.saturating_sub(self.host.available_permits());
        Load { running, queued: self.owners.lock().waiting }
    }

    /// Waits for a place until `deadline`.
    pub(super) async fn enter(self: &Arc<Self>, owner: &OwnerId, deadline: Instant) -> Result<Place, Error> {
        let places = self.line_up(owner)?;
        let mut waiting = Waiting { admission: self, owner, entered: false };
        let both = async {
            let own = places.acquire_owned().await;
            (own, Arc::clone(&self.host).acquire_owned().await)
        };
        let busy = || Error::new(Code::Overloaded, "no place to run became free before the deadline");
        let Ok((Ok(own), Ok(host))) = tokio::time::timeout_at(deadline.into(), both).await else {
            return Err(busy());
        };
        waiting.entered = true;
        Ok(Place { admission: Arc::clone(self), owner: owner.clone(), _permits: (own, host), _bytes: None })
    }

    /// Takes the last place in the line for a request of so many bytes, which waits there on its own.
    pub(super) fn queue(self: &Arc<Self>, owner: &OwnerId, bytes: u64) -> Result<Turn, Error> {
        let room = self.room(owner, bytes)?;
        // They may wait for hours: half of the line is for those who wait for an answer.
        if self.owners.lock().waiting >= self.settings.queue_host.div_ceil(2) {
            return Err(Error::new(Code::Overloaded, "too many executions wait on this host (half of queue.host)"));
        }
        let places = self.line_up(owner)?;
        Ok(self.turn(owner, places, room))
    }

    /// The same for what was accepted before, whatever the bounds are now.
    pub(super) fn queue_again(self: &Arc<Self>, owner: &OwnerId, bytes: u64) -> Turn {
        let mut owners = self.owners.lock();
        let room = self.taken(&mut owners, owner, bytes);
        let places = self.counted(&mut owners, owner);
        drop(owners);
        self.turn(owner, places, room)
    }

    fn turn(self: &Arc<Self>, owner: &OwnerId, places: Arc<Semaphore>, room: QueuedBytes) -> Turn {
        let (admission, owner) = (Arc::clone(self), owner.clone());
        let mut turn: Pin<Box<dyn Future<Output = Option<Place>> + Send>> = Box::pin(async move {
            let mut waiting = Waiting { admission: &admission, owner: &owner, entered: false };
            let own = places.acquire_owned().await.ok()?;
            let host = Arc::clone(&admission.host).acquire_owned().await.ok()?;
            waiting.entered = true;
            let admission = Arc::clone(&admission);
            Some(Place { admission, owner: owner.clone(), _permits: (own, host), _bytes: Some(room) })
        });
        // At once, so that who comes first stands first.
        match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(place)) => Turn::Come(place),
            Poll::Ready(None) | Poll::Pending => Turn::Waits(turn),
        }
    }

    fn room(self: &Arc<Self>, owner: &OwnerId, bytes: u64) -> Result<QueuedBytes, Error> {
        let mut owners = self.owners.lock();
        let own = owners.bytes_each.get(owner).copied().unwrap_or_default();
        if owners.bytes + bytes > QUEUED_BYTES {
            let detail = "the requests that wait on this host have too many bytes";
            return Err(Error::new(Code::Overloaded, detail));
        }
        if own + bytes > QUEUED_BYTES_PER_OWNER {
            return Err(Error::new(Code::QueueFull, "your requests that wait have too many bytes"));
        }
        Ok(self.taken(&mut owners, owner, bytes))
    }

    fn taken(self: &Arc<Self>, owners: &mut Owners, owner: &OwnerId, bytes: u64) -> QueuedBytes {
        owners.bytes += bytes;
        *owners.bytes_each.entry(owner.clone()).or_default() += bytes;
        QueuedBytes { admission: Arc::clone(self), owner: owner.clone(), bytes }
    }

    fn line_up(&self, owner: &OwnerId) -> Result<Arc<Semaphore>, Error> {
        let mut owners = self.owners.lock();
        // Those that wait may all be others', which have no more places of their own.
        if owners.waiting >= self.settings.queue_host && self.host.available_permits() == 0 {
            return Err(Error::new(Code::Overloaded, "too many executions wait on this host (queue.host)"));
        }
        if owners.each.get(owner).is_some_and(|entry| entry.waiting >= self.settings.queue_per_owner) {
            return Err(Error::new(Code::QueueFull, "too many of your executions wait (queue.per_owner)"));
        }
        Ok(self.counted(&mut owners, owner))
    }

    /// Counts one more of this owner's who waits.
    fn counted(&self, owners: &mut Owners, owner: &OwnerId) -> Arc<Semaphore> {
        let places = self.settings.concurrency_per_owner;
        let entry = owners.each.entry(owner.clone()).or_insert_with(|| Owner {
            places: Arc::new(Semaphore::new(places)),
            present: 0,
            waiting: 0,
        });
        entry.present += 1;
        entry.waiting += 1;
        owners.waiting += 1;
        Arc::clone(&entry.places)
    }

    fn leave(&self, owner: &OwnerId) {
        let mut owners = self.owners.lock();
        if let Some(entry) = owners.each.get_mut(owner) {
            entry.present -= 1;
            if entry.present == 0 {
                owners.each.remove(owner);
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut owners = self.admission.owners.lock();
        owners.waiting -= 1;
        if let Some(entry) = owners.each.get_mut(self.owner) {
            entry.waiting -= 1;
        }
        drop(owners);
        if !self.entered {
            self.admission.leave(self.owner);
        }
    }
}

impl Turn {
    /// Waits for the place; none where there will be no more.
    pub(super) async fn come(self) -> Option<Place> {
        match self {
            Self::Come(place) => Some(place),
            Self::Waits(turn) => turn.await,
        }
    }
}

impl Drop for QueuedBytes {
    fn drop(&mut self) {
        let mut owners = self.admission.owners.lock();
        owners.bytes -= self.bytes;
        let left = owners.bytes_each.get(&self.owner).copied().unwrap_or_default().saturating_sub(self.bytes);
        if left == 0 {
            owners.bytes_each.remove(&self.owner);
        } else {
            owners.bytes_each.insert(self.owner.clone(), left);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.leave(&self.owner);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn admission(host: usize, owner: usize, queue: usize) -> Arc<Admission> {
        Admission::new(AdmissionSettings {
            concurrency_host: host,
            concurrency_per_owner: owner,
            queue_host: queue,
            queue_per_owner: queue,
        })
    }

    #[tokio::test]
    async fn a_place_is_given_back_and_a_full_line_says_so() {
        let gate = admission(1, 1, 1);
        let owner: OwnerId = "a".parse().unwrap();
        let soon = || Instant::now() + Duration::from_millis(20);
        let place = gate.enter(&owner, soon()).await.unwrap();
        let (waits, refused) = tokio::join!(gate.enter(&owner, soon()), gate.enter(&owner, soon()));
        assert_eq!(waits.err().unwrap().code, Code::Overloaded);
        assert!(matches!(refused.err().unwrap().code, Code::QueueFull | Code::Overloaded));
        drop(place);
        assert!(gate.enter(&owner, soon()).await.is_ok());
        assert!(gate.owners.lock().each.is_empty());
    }

    #[tokio::test]
    async fn who_queues_first_comes_first_and_gives_all_its_room_back() {
        let gate = admission(1, 1, 3);
        let owner: OwnerId = "a".parse().unwrap();
        let first = gate.queue(&owner, QUEUED_BYTES_PER_OWNER - 1).unwrap().come().await.unwrap();
        assert_eq!(gate.queue(&owner, 2).err().unwrap().code, Code::QueueFull, "what runs counts too");
        let (second, third) = (gate.queue(&owner, 1).unwrap(), gate.queue_again(&owner, 1));
        let (mut second, mut third) = (Box::pin(second.come()), Box::pin(third.come()));
        // Who is asked first is not who came first.
        assert!(futures_util::poll!(&mut third).is_pending() && futures_util::poll!(&mut second).is_pending());
        drop(first);
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(second.await);
        drop(third.await);
        let waits = gate.queue(&owner, 5).unwrap();
        drop((gate.queue(&owner, 5).unwrap(), waits));
        let owners = gate.owners.lock();
        assert!(owners.each.is_empty() && owners.bytes_each.is_empty() && owners.bytes + owners.waiting as u64 == 0);
    }
}
