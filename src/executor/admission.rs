//! Who may run now, who waits, and who is sent away.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::model::{Code, Error, OwnerId};
use crate::sandbox::Fair;
use crate::telemetry::Load;

use super::room::{Room, Rooms};
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
    /// What waits on its own, or runs.
    rooms: Arc<Rooms>,
}

struct Gate {
    places: Fair<oneshot::Sender<Instant>>,
    starts: Starts,
    /// How many wait of those of which nobody waits for the end.
    alone: usize,
    /// Whether [`Admission::tick`] goes on.
    ticking: bool,
}

/// A place among those that run; given back when dropped.
pub(super) struct Place {
    admission: Arc<Admission>,
    owner: OwnerId,
    begun: Instant,
    room: Option<Room>,
}

/// A place in the line for a request of which nobody waits for the end; given back when dropped.
pub(super) struct Turn {
    in_line: InLine,
    room: Room,
}

/// A place in the line; given back when dropped.
struct InLine {
    admission: Arc<Admission>,
    owner: OwnerId,
    /// Where it stands, and who says that its turn has come; nothing if that was at once.
    waits: Option<(u64, oneshot::Receiver<Instant>)>,
    /// Whether nobody waits for the end.
    alone: bool,
    /// When its turn came.
    begun: Instant,
    entered: bool,
}

impl Admission {
    pub(super) fn new(settings: AdmissionSettings) -> Arc<Self> {
        let places = Fair::new(settings.concurrency_host, settings.concurrency_per_owner);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let starts = Starts::new(processors * YOUNG_PER_PROCESSOR);
        let gate = Mutex::new(Gate { places, starts, alone: 0, ticking: false });
        Arc::new(Self { settings, gate, rooms: Arc::default() })
    }

    /// How many run and wait.
    pub(super) fn load(&self) -> Load {
        let (running, queued) = self.gate.lock().places.counts();
        Load { running, queued }
    }

    /// Waits for a place until `deadline`.
    ///
    /// # Errors
    ///
    /// `queue_full`, `overloaded` if too many wait, or the deadline comes first.
    pub(super) async fn enter(self: &Arc<Self>, owner: &OwnerId, deadline: Instant) -> Result<Place, Error> {
        self.line_up(owner, false)?.place(deadline).await
    }

    /// Takes the last place in its owner's line for a request of so many bytes, which waits there on
    /// its own.
    ///
    /// # Errors
    ///
    /// `queue_full`, `overloaded` if too many or too much waits.
    pub(super) fn queue(self: &Arc<Self>, owner: &OwnerId, bytes: u64) -> Result<Turn, Error> {
        let AdmissionSettings { concurrency_host, concurrency_per_owner, queue_host, queue_per_owner } = self.settings;
        // Those count too that are not in the line now, because they wait for fuel.
        let most = (queue_per_owner.saturating_add(concurrency_per_owner), queue_host.saturating_add(concurrency_host));
        let room = self.rooms.take(owner, bytes, most)?;
        Ok(Turn { in_line: self.line_up(owner, true)?, room })
    }

    /// The same for what was accepted before, whatever the bounds are now.
    pub(super) fn queue_again(self: &Arc<Self>, owner: &OwnerId, bytes: u64) -> Turn {
        let room = self.rooms.take_anyway(owner, bytes);
        self.requeue(owner, room)
    }

    /// The same for what had its turn and gave its place back.
    pub(super) fn requeue(self: &Arc<Self>, owner: &OwnerId, room: Room) -> Turn {
        let now = Instant::now();
        let mut gate = self.gate.lock();
        let begins = gate.begin(owner, now);
        let waits = (!begins).then(|| self.wait(gate, owner, true));
        Turn { in_line: self.in_line(owner, waits, (true, now)), room }
    }

    /// Gives a place to who may begin, and one in the line to who may not. The bounds of the line
    /// hold then even where a place is free: its owner may not have it now.
    fn line_up(self: &Arc<Self>, owner: &OwnerId, alone: bool) -> Result<InLine, Error> {
        let now = Instant::now();
        let mut gate = self.gate.lock();
        if gate.begin(owner, now) {
            drop(gate);
            return Ok(self.in_line(owner, None, (alone, now)));
        }
        if gate.places.waiting(owner) >= self.settings.queue_per_owner {
            return Err(Error::new(Code::QueueFull, "too many of your executions wait (queue.per_owner)"));
        }
        if gate.places.counts().1 >= self.settings.queue_host {
            return Err(Error::new(Code::Overloaded, "too many executions wait on this host (queue.host)"));
        }
        // They may wait for hours: half of the line is for those who wait for an answer.
        if alone && gate.alone >= self.settings.queue_host.div_ceil(2) {
            let detail = "too many asynchronous executions wait on this host (half of queue.host)";
            return Err(Error::new(Code::Overloaded, detail));
        }
        let waits = self.wait(gate, owner, alone);
        Ok(self.in_line(owner, Some(waits), (alone, now)))
    }

    /// Lines up one that could not begin.
    fn wait(
        self: &Arc<Self>,
        mut gate: MutexGuard<'_, Gate>,
        owner: &OwnerId,
        alone: bool,
    ) -> (u64, oneshot::Receiver<Instant>) {
        let now = Instant::now();
        gate.alone += usize::from(alone);
        let (turn, turns) = oneshot::channel();
        let number = gate.places.line_up(owner, turn);
        if !gate.starts.may(owner, now) {
            gate.hold(owner);
        }
        if !std::mem::replace(&mut gate.ticking, true) {
            tokio::spawn(Self::tick(Arc::downgrade(self)));
        }
        (number, turns)
    }

    fn in_line(
        self: &Arc<Self>,
        owner: &OwnerId,
        waits: Option<(u64, oneshot::Receiver<Instant>)>,
        (alone, now): (bool, Instant),
    ) -> InLine {
        InLine { admission: Arc::clone(self), owner: owner.clone(), waits, alone, begun: now, entered: false }
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
    /// Takes note of a request, and gives it a place if it may begin now.
    fn begin(&mut self, owner: &OwnerId, now: Instant) -> bool {
        self.starts.came(owner, now);
        let begins = self.starts.may(owner, now) && self.places.take(owner);
        if begins {
            self.starts.begun(owner, now);
        }
        begins
    }

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
    async fn place(self, deadline: Instant) -> Result<Place, Error> {
        let place = if self.waits.is_none() {
            self.come().await
        } else {
            tokio::time::timeout_at(deadline.into(), self.come()).await.ok().flatten()
        };
        place.ok_or_else(|| Error::new(Code::Overloaded, "no place to run became free before the deadline"))
    }

    /// Waits for a place; none where there will be no more.
    async fn come(mut self) -> Option<Place> {
        if let Some((_, turn)) = &mut self.waits {
            self.begun = turn.await.ok()?;
        }
        self.entered = true;
        let (admission, owner) = (Arc::clone(&self.admission), self.owner.clone());
        Some(Place { admission, owner, begun: self.begun, room: None })
    }
}

impl Turn {
    /// Waits for the place; none where there will be no more.
    pub(super) async fn come(self) -> Option<Place> {
        let Self { in_line, room } = self;
        let mut place = in_line.come().await?;
        place.room = Some(room);
        Some(place)
    }
}

impl Place {
    /// Gives the place back, but not the room of a request that goes on waiting on its own.
    pub(super) fn give_back(mut self) -> Option<Room> {
        self.room.take()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.leave(&self.owner, self.begun);
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let is_counted = self.alone && self.waits.is_some();
        if self.entered && !is_counted {
            return;
        }
        let mut gate = self.admission.gate.lock();
        gate.alone -= usize::from(is_counted);
        if self.entered {
            return;
        }
        let waited = self.waits.as_ref().is_some_and(|(number, _)| gate.places.give_up(&self.owner, *number));
        drop(gate);
        if !waited {
            // A turn that came and was not taken is noted as begun until it grows older.
            self.admission.leave(&self.owner, self.begun);
        }
    }
}

#[cfg(test)]
mod tests;
