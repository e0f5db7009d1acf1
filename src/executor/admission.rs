//! Who may run now, who waits, and who is sent away.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::model::{Code, Error, OwnerId};
use crate::sandbox::Fair;
use crate::telemetry::Load;

use super::starts::Starts;

/// How often to look whether an owner may begin more.
const TICK: Duration = Duration::from_millis(10);
/// Runs for each processor that an owner has just begun, while it is not alone.
const YOUNG_PER_PROCESSOR: usize = 4;

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
    gate: Mutex<Gate>,
}

struct Gate {
    places: Fair<oneshot::Sender<Instant>>,
    starts: Starts,
    /// Whether [`Admission::tick`] goes on.
    ticking: bool,
}

/// A place among those that run; given back when dropped.
pub(super) struct Place {
    admission: Arc<Admission>,
    owner: OwnerId,
    begun: Instant,
}

/// A place in the line; given back when dropped.
pub(super) struct InLine {
    admission: Arc<Admission>,
    owner: OwnerId,
    /// Where it stands, and who says that its turn has come; nothing if that was at once.
    waits: Option<(u64, oneshot::Receiver<Instant>)>,
    /// When its turn came.
    begun: Instant,
    entered: bool,
}

impl Admission {
    pub(super) fn new(settings: AdmissionSettings) -> Arc<Self> {
        let places = Fair::new(settings.concurrency_host, settings.concurrency_per_owner);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let starts = Starts::new(processors * YOUNG_PER_PROCESSOR);
        Arc::new(Self { settings, gate: Mutex::new(Gate { places, starts, ticking: false }) })
    }

    /// How many run and wait.
    pub(super) fn load(&self) -> Load {
        let (running, queued) = self.gate.lock().places.counts();
        Load { running, queued }
    }

    /// Waits for a place until `deadline`.
    pub(super) async fn enter(self: &Arc<Self>, owner: &OwnerId, deadline: Instant) -> Result<Place, Error> {
        self.line_up(owner)?.place(deadline).await
    }

    /// Takes a place in the line, or at once one to run.
    ///
    /// # Errors
    ///
    /// `queue_full`, `overloaded` if too many wait.
    pub(super) fn line_up(self: &Arc<Self>, owner: &OwnerId) -> Result<InLine, Error> {
        let now = Instant::now();
        let mut gate = self.gate.lock();
        gate.starts.came(owner, now);
        let in_line =
            |waits| InLine { admission: Arc::clone(self), owner: owner.clone(), waits, begun: now, entered: false };
        let may = gate.starts.may(owner, now);
        if may && gate.places.take(owner) {
            gate.starts.begun(owner, now);
            drop(gate);
            return Ok(in_line(None));
        }
        if gate.places.waiting(owner) >= self.settings.queue_per_owner {
            return Err(Error::new(Code::QueueFull, "too many of your executions wait (queue.per_owner)"));
        }
        if gate.places.counts().1 >= self.settings.queue_host {
            return Err(Error::new(Code::Overloaded, "too many executions wait on this host (queue.host)"));
        }
        let (turn, turns) = oneshot::channel();
        let number = gate.places.line_up(owner, turn);
        if !may {
            gate.hold(owner);
        }
        if !std::mem::replace(&mut gate.ticking, true) {
            tokio::spawn(Self::tick(Arc::downgrade(self)));
        }
        drop(gate);
        Ok(in_line(Some((number, turns))))
    }

    fn leave(&self, owner: &OwnerId, begun: Instant) {
        let now = Instant::now();
        let mut gate = self.gate.lock();
        let left = gate.places.give_back(owner);
        gate.starts.ended(owner, begun, left == 0);
        let next = gate.hand_out(now);
        drop(gate);
        tell(next, now);
    }

    /// Looks again and again whether who waits may begin, as long as somebody waits.
    async fn tick(admission: Weak<Self>) {
        loop {
            tokio::time::sleep(TICK).await;
            let Some(admission) = admission.upgrade() else { return };
            let now = Instant::now();
            let mut gate = admission.gate.lock();
            let next = gate.hand_out(now);
            gate.ticking = gate.places.counts().1 > 0;
            let goes_on = gate.ticking;
            drop(gate);
            tell(next, now);
            if !goes_on {
                return;
            }
        }
    }
}

/// Tells those whose turn has come. Who has given up meanwhile gives the place back.
fn tell(next: Vec<oneshot::Sender<Instant>>, now: Instant) {
    for turn in next {
        let _ = turn.send(now);
    }
}

impl Gate {
    /// Lets an owner wait that has begun enough for now.
    fn hold(&mut self, owner: &OwnerId) {
        self.places.bar(owner, true);
        self.starts.held.insert(owner.clone());
    }

    /// Gives free places to those who wait and may begin.
    fn hand_out(&mut self, now: Instant) -> Vec<oneshot::Sender<Instant>> {
        for owner in std::mem::take(&mut self.starts.held) {
            if self.starts.may(&owner, now) {
                self.places.bar(&owner, false);
            } else {
                self.starts.held.insert(owner);
            }
        }
        let mut turns = Vec::new();
        while let Some((owner, turn)) = self.places.serve() {
            self.starts.begun(&owner, now);
            if !self.starts.may(&owner, now) {
                self.hold(&owner);
            }
            turns.push(turn);
        }
        turns
    }
}

impl InLine {
    /// Waits for a place until `deadline`.
    pub(super) async fn place(mut self, deadline: Instant) -> Result<Place, Error> {
        if let Some((_, turn)) = &mut self.waits {
            let Ok(Ok(begun)) = tokio::time::timeout_at(deadline.into(), turn).await else {
                return Err(Error::new(Code::Overloaded, "no place to run became free before the deadline"));
            };
            self.begun = begun;
        }
        self.entered = true;
        Ok(Place { admission: Arc::clone(&self.admission), owner: self.owner.clone(), begun: self.begun })
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        if self.entered {
            return;
        }
        let gate = &self.admission.gate;
        let waited = self.waits.as_ref().is_some_and(|(number, _)| gate.lock().places.give_up(&self.owner, *number));
        if !waited {
            // A turn that came and was not taken is noted as begun until it grows older.
            self.admission.leave(&self.owner, self.begun);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.leave(&self.owner, self.begun);
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
        assert_eq!(gate.load(), Load::default());
    }
}
