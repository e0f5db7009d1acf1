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
    /// When its turn came.
    begun: Instant,
    entered: bool,
}

impl Admission {
    pub(super) fn new(settings: AdmissionSettings) -> Arc<Self> {
        let places = Fair::new(settings.concurrency_host, settings.concurrency_per_owner);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let starts = Starts::new(processors * YOUNG_PER_PROCESSOR);
        let gate = Mutex::new(Gate { places, starts, ticking: false });
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
        self.line_up(owner)?.place(deadline).await
    }

    /// Takes the last place in its owner's line for a request of so many bytes, which waits there on
    /// its own.
    ///
    /// # Errors
    ///
    /// `queue_full`, `overloaded` if too many or too much waits.
    pub(super) fn queue(self: &Arc<Self>, owner: &OwnerId, bytes: u64) -> Result<Turn, Error> {
        // They may wait for hours: half of the line is for those who wait for an answer.
        if self.gate.lock().places.counts().1 >= self.settings.queue_host.div_ceil(2) {
            return Err(Error::new(Code::Overloaded, "too many executions wait on this host (half of queue.host)"));
        }
        let AdmissionSettings { concurrency_host, concurrency_per_owner, queue_host, queue_per_owner } = self.settings;
        // Those count too that are not in the line now, because they wait for fuel.
        let most = (queue_per_owner.saturating_add(concurrency_per_owner), queue_host.saturating_add(concurrency_host));
        let room = self.rooms.take(owner, bytes, most)?;
        Ok(Turn { in_line: self.line_up(owner)?, room })
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
        let waits = (!begins).then(|| self.wait(gate, owner, now));
        Turn { in_line: self.in_line(owner, waits, now), room }
    }

    fn line_up(self: &Arc<Self>, owner: &OwnerId) -> Result<InLine, Error> {
        let now = Instant::now();
        let mut gate = self.gate.lock();
        if gate.begin(owner, now) {
            drop(gate);
            return Ok(self.in_line(owner, None, now));
        }
        if gate.places.waiting(owner) >= self.settings.queue_per_owner {
            return Err(Error::new(Code::QueueFull, "too many of your executions wait (queue.per_owner)"));
        }
        if gate.places.counts().1 >= self.settings.queue_host {
            return Err(Error::new(Code::Overloaded, "too many executions wait on this host (queue.host)"));
        }
        let waits = self.wait(gate, owner, now);
        Ok(self.in_line(owner, Some(waits), now))
    }

    /// Lines up one that could not begin.
    fn wait(
        self: &Arc<Self>,
        mut gate: MutexGuard<'_, Gate>,
        owner: &OwnerId,
        now: Instant,
    ) -> (u64, oneshot::Receiver<Instant>) {
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
        now: Instant,
    ) -> InLine {
        InLine { admission: Arc::clone(self), owner: owner.clone(), waits, begun: now, entered: false }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::room::BYTES_PER_OWNER;
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

    #[tokio::test]
    async fn who_queues_first_comes_first_and_gives_all_its_room_back() {
        let gate = admission(1, 1, 3);
        let owner: OwnerId = "a".parse().unwrap();
        let first = gate.queue(&owner, BYTES_PER_OWNER - 1).unwrap().come().await.unwrap();
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
        assert!(gate.load() == Load::default() && gate.rooms.are_empty());
    }
    #[tokio::test]
    async fn what_waits_on_its_own_stands_behind_no_long_line_of_another_owner() {
        let gate = admission(1, 1, 400);
        let (a, b): (OwnerId, OwnerId) = ("a".parse().unwrap(), "b".parse().unwrap());
        let running = gate.queue(&a, 1).unwrap().come().await.unwrap();
        let mut line: Vec<_> = (0..100).map(|_| gate.queue(&a, 1).unwrap()).collect();
        let other = gate.queue(&b, 1).unwrap();
        drop(running);
        // Its owner came later than the other one had its last place.
        drop(line.remove(0).come().await.unwrap());
        let other = other.come().await.unwrap();
        assert_eq!(gate.load(), Load { running: 1, queued: 99 });
        // What gives its place back waits again, and its request has its room all the time.
        let room = other.give_back().unwrap();
        assert_eq!(gate.load(), Load { running: 1, queued: 98 });
        let again = gate.requeue(&b, room);
        assert_eq!(gate.load(), Load { running: 1, queued: 99 });
        drop(line);
        drop(again.come().await.unwrap());
        assert!(gate.load() == Load::default() && gate.rooms.are_empty());
    }
    #[tokio::test]
    async fn what_gave_its_place_back_counts_among_those_that_wait() {
        let gate = admission(1, 1, 1);
        let owner: OwnerId = "a".parse().unwrap();
        let mut rooms = Vec::new();
        for _ in 0..2 {
            rooms.push(gate.queue(&owner, 1).unwrap().come().await.unwrap().give_back().unwrap());
        }
        assert!(matches!(gate.queue(&owner, 1).err().unwrap().code, Code::QueueFull | Code::Overloaded));
        rooms.pop();
        drop(gate.queue(&owner, 1).unwrap());
        rooms.clear();
        assert!(gate.load() == Load::default() && gate.rooms.are_empty());
    }
}
