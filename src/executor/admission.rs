//! Who may run now, who waits, and who is sent away.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model::{Code, Error, OwnerId};
use crate::telemetry::Load;

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
        Ok(Place { admission: Arc::clone(self), owner: owner.clone(), _permits: (own, host) })
    }

    fn line_up(&self, owner: &OwnerId) -> Result<Arc<Semaphore>, Error> {
        let mut owners = self.owners.lock();
        if owners.waiting >= self.settings.queue_host {
            return Err(Error::new(Code::Overloaded, "too many executions wait on this host (queue.host)"));
        }
        let places = self.settings.concurrency_per_owner;
        let entry = owners.each.entry(owner.clone()).or_insert_with(|| Owner {
            places: Arc::new(Semaphore::new(places)),
            present: 0,
            waiting: 0,
        });
        if entry.waiting >= self.settings.queue_per_owner {
            return Err(Error::new(Code::QueueFull, "too many of your executions wait (queue.per_owner)"));
        }
        entry.present += 1;
        entry.waiting += 1;
        let places = Arc::clone(&entry.places);
        owners.waiting += 1;
        Ok(places)
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
}
