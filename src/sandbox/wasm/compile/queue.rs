//! Who is compiled next: owners in turn, and few large components at a time. What may not
//! begin yet is passed by what may, of the same owner too.
//!
//! One worker is a spare: it serves only owners who have nothing at work. So an owner whose
//! components keep all other workers until their time limit makes nobody else wait.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::model::{Code, Error, OwnerId};
use crate::sandbox::{Inspection, PrepareRequest, Preparing};
use crate::telemetry::Telemetry;

/// Components above this many bytes take so much memory to compile that few go at a time.
const LARGE: u64 = 4 << 20;
/// Most large components at work, each of another owner. One alone could keep all others
/// waiting until its time limit.
const MOST_LARGE: usize = 2;
/// Most components that wait.
const MAX_WAITING: usize = 2000;
/// Most components of one owner that wait.
const MAX_WAITING_PER_OWNER: usize = 500;

/// A component that waits or is being compiled.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request: PrepareRequest,
    inspected: Option<oneshot::Sender<Result<Inspection, Error>>>,
    ready: oneshot::Sender<Result<(), Error>>,
}

impl Job {
    /// A job, and what its asker waits on.
    pub(super) fn new(request: PrepareRequest) -> (Self, Preparing) {
        let (inspected, inspected_answer) = oneshot::channel();
        let (ready, ready_answer) = oneshot::channel();
        let preparing = Preparing { inspected: inspected_answer, ready: ready_answer };
        (Self { request, inspected: Some(inspected), ready }, preparing)
    }

    /// Answers the first question; the asker may have left.
    pub(super) fn inspected(&mut self, result: Result<Inspection, Error>) {
        if let Some(answer) = self.inspected.take() {
            let _ = answer.send(result);
        }
    }

    /// Answers whatever was not answered yet.
    pub(super) fn finish(mut self, result: Result<(), Error>) {
        if let Err(error) = &result {
            let copy = Error::new(error.code, error.detail.clone());
            self.inspected(Err(copy));
        }
        let _ = self.ready.send(result);
    }

    fn is_large(&self) -> bool {
        self.request.bytes > LARGE
    }
}

/// The line of waiting jobs.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Notify,
    telemetry: Arc<Telemetry>,
}

#[derive(Debug, Default)]
struct State {
    /// Jobs of each owner that has any.
    waiting: HashMap<OwnerId, VecDeque<Job>>,
    /// The owners of `waiting`, next one first.
    turns: VecDeque<OwnerId>,
    count: usize,
    /// How many jobs of each owner are at work.
    running: HashMap<OwnerId, usize>,
    /// Whose large components are at work.
    large: Vec<OwnerId>,
    closed: bool,
}

/// Whom a worker serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serves {
    /// Everybody.
    All,
    /// Those who have nothing at work.
    Newcomers,
}

/// A job in work. Gives its place back when dropped.
pub(super) struct Running<'a> {
    queue: &'a Queue,
    job: Option<Job>,
}

impl Queue {
    /// An empty line, whose length `telemetry` shows.
    pub(super) fn new(telemetry: Arc<Telemetry>) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), telemetry }
    }

    /// Lines a job up.
    ///
    /// # Errors
    ///
    /// `overloaded` if too many wait.
    pub(super) fn push(&self, job: Job) -> Result<(), Error> {
        let owner = job.request.owner.clone();
        let mut state = self.state.lock();
        let own = state.waiting.get(&owner).map_or(0, VecDeque::len);
        if state.closed || state.count >= MAX_WAITING || own >= MAX_WAITING_PER_OWNER {
            let detail = "too many components wait to be compiled";
            return Err(Error::new(Code::Overloaded, detail).retry_after(5));
        }
        state.count += 1;
        if own == 0 {
            state.turns.push_back(owner.clone());
        }
        state.waiting.entry(owner).or_default().push_back(job);
        self.telemetry.compile.waiting(state.count);
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// The next job, or nothing once the queue is closed.
    pub(super) async fn pop(&self, serves: Serves) -> Option<Running<'_>> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state.lock();
                if state.closed {
                    return None;
                }
                if let Some(job) = state.take(serves) {
                    self.telemetry.compile.waiting(state.count);
                    return Some(Running { queue: self, job: Some(job) });
                }
            }
            changed.await;
        }
    }

    /// Ends the work: those who wait get no answer.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiting.clear();
        drop(state);
        self.changed.notify_waiters();
    }
}

impl State {
    /// Takes a job of the first owner in turn that has one which may run now.
    fn take(&mut self, serves: Serves) -> Option<Job> {
        let (place, index) = self.turns.iter().enumerate().find_map(|(place, owner)| {
            if serves == Serves::Newcomers && self.running.contains_key(owner) {
                return None;
            }
            let has_room = self.large.len() < MOST_LARGE && !self.large.contains(owner);
            let index = self.waiting.get(owner)?.iter().position(|job| has_room || !job.is_large())?;
            Some((place, index))
        })?;
        let owner = self.turns.remove(place)?;
        let jobs = self.waiting.get_mut(&owner)?;
        let job = jobs.remove(index)?;
        if jobs.is_empty() {
            self.waiting.remove(&owner);
        } else {
            self.turns.push_back(owner.clone());
        }
        self.count -= 1;
        if job.is_large() {
            self.large.push(owner.clone());
        }
        *self.running.entry(owner).or_default() += 1;
        Some(job)
    }

    /// A job is no longer at work.
    fn put_down(&mut self, job: &Job) {
        if let Some(count) = self.running.get_mut(&job.request.owner) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(&job.request.owner);
            }
        }
        if job.is_large() {
            self.large.retain(|owner| *owner != job.request.owner);
        }
    }
}

impl Running<'_> {
    /// The job.
    pub(super) fn job(&mut self) -> Option<&mut Job> {
        self.job.as_mut()
    }

    /// Ends the job with this result.
    pub(super) fn finish(mut self, result: Result<(), Error>) {
        if let Some(job) = self.job.take() {
            self.put_down(&job);
            job.finish(result);
        }
    }

    fn put_down(&self, job: &Job) {
        self.queue.state.lock().put_down(job);
        self.queue.changed.notify_waiters();
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.put_down(&job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Digest, Handler};

    fn job(owner: &str, bytes: u64) -> Job {
        let request = PrepareRequest {
            owner: owner.parse().unwrap(),
            handler: Handler::Wasm { digest: Digest::of(owner.as_bytes()) },
            digest: Digest::of(owner.as_bytes()),
            file: "/nowhere".into(),
            bytes,
            unmetered: false,
        };
        Job::new(request).0
    }

    async fn next(queue: &Queue) -> String {
        let mut running = queue.pop(Serves::All).await.unwrap();
        let owner = running.job().unwrap().request.owner.to_string();
        running.finish(Ok(()));
        owner
    }

    #[tokio::test]
    async fn owners_take_turns() {
        let queue = Queue::new(Telemetry::new());
        for owner in ["a", "a", "a", "b"] {
            queue.push(job(owner, 1)).unwrap();
        }
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(next(&queue).await);
        }
        assert_eq!(order, ["a", "b", "a", "a"]);
    }

    #[tokio::test]
    async fn few_large_components_go_at_a_time_and_let_small_ones_pass() {
        let queue = Queue::new(Telemetry::new());
        for (owner, bytes) in [("a", LARGE + 1), ("b", LARGE + 1), ("c", LARGE + 1), ("d", 1)] {
            queue.push(job(owner, bytes)).unwrap();
        }
        let first = queue.pop(Serves::All).await.unwrap();
        // The spare takes the second: one owner's large component keeps nobody else's waiting.
        let mut second = queue.pop(Serves::Newcomers).await.unwrap();
        assert_eq!(second.job().unwrap().request.owner.as_str(), "b");
        assert_eq!(next(&queue).await, "d");
        assert!(queue.state.lock().take(Serves::All).is_none());
        first.finish(Ok(()));
        assert_eq!(next(&queue).await, "c");
    }

    #[tokio::test]
    async fn an_owner_has_one_large_component_at_work_and_small_ones_do_not_wait_behind_the_next() {
        let queue = Queue::new(Telemetry::new());
        for bytes in [LARGE + 1, LARGE + 2, 1, 2] {
            queue.push(job("a", bytes)).unwrap();
        }
        let mut order = Vec::new();
        let first = queue.pop(Serves::All).await.unwrap();
        for _ in 0..2 {
            let mut small = queue.pop(Serves::All).await.unwrap();
            order.push(small.job().unwrap().request.bytes);
            small.finish(Ok(()));
        }
        assert!(queue.state.lock().take(Serves::All).is_none());
        // A worker that is lost gives the place back, too.
        drop(first);
        order.push(queue.pop(Serves::All).await.unwrap().job().unwrap().request.bytes);
        assert_eq!(order, [1, 2, LARGE + 2]);
    }

    #[tokio::test]
    async fn the_spare_worker_passes_over_an_owner_who_has_a_job_at_work() {
        let queue = Queue::new(Telemetry::new());
        for owner in ["a", "a", "b"] {
            queue.push(job(owner, 1)).unwrap();
        }
        let first = queue.pop(Serves::All).await.unwrap();
        let mut spare = queue.pop(Serves::Newcomers).await.unwrap();
        assert_eq!(spare.job().unwrap().request.owner.as_str(), "b");
        assert!(queue.state.lock().take(Serves::Newcomers).is_none());
        first.finish(Ok(()));
        assert!(queue.state.lock().take(Serves::Newcomers).is_some());
    }

    #[test]
    fn a_full_queue_says_so() {
        let queue = Queue::new(Telemetry::new());
        for _ in 0..MAX_WAITING_PER_OWNER {
            queue.push(job("a", 1)).unwrap();
        }
        assert_eq!(queue.push(job("a", 1)).unwrap_err().code, Code::Overloaded);
        assert!(queue.push(job("b", 1)).is_ok());
    }
}
