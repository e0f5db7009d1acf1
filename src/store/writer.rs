//! The one thread that writes, and commits what has gathered as one group: what somebody waits
//! for, and what the journal has.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::model::{Clock, Code, Error};
use crate::telemetry::Telemetry;

use super::chain::{Signer, checkpoint, checkpoint_when_due};
use super::executions::apply;
use super::fault::fault;
use super::journal::{Backlog, Record};

/// Most jobs in one commit: bounds how long the first of a group waits for the last.
const GROUP: usize = 512;

/// Does its part inside the open transaction (or nothing, if there is none), and gives back
/// what to do once that is committed, or has failed.
type Work = Box<dyn FnOnce(Option<&Connection>) -> Reply + Send>;
type Reply = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// How long what is in the journal gathers: nobody waits for it.
const GATHERING: Duration = Duration::from_millis(10);
/// When what could not be put into the database is tried again.
const AGAIN: Duration = Duration::from_millis(250);

/// What the thread is told.
enum Job {
    /// To do this now.
    Work(Work),
    /// That the journal has something.
    Wake,
}

/// The way to the writer thread.
#[derive(Clone)]
pub(super) struct Writer {
    jobs: Arc<Mutex<Option<Sender<Job>>>>,
    backlog: Arc<Backlog>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Writer {
    /// Starts the thread, which owns `connection`. All that the journal numbered up to `applied`
    /// is in the database. What it commits is signed now and then by `signer`.
    pub(super) fn start(
        connection: Connection,
        signer: Option<Arc<Signer>>,
        applied: u64,
        telemetry: Arc<Telemetry>,
    ) -> Result<Self, Error> {
        let (sender, receiver) = channel();
        let jobs = Arc::new(Mutex::new(Some(sender)));
        // The thread has the backlog, and ends when nobody can send it anything.
        let waker = Arc::downgrade(&jobs);
        let backlog = Arc::new(Backlog::new(applied, move || {
            let Some(jobs) = waker.upgrade() else { return };
            if let Some(jobs) = &*jobs.lock() {
                let _ = jobs.send(Job::Wake);
            }
        }));
        let mut group = Group {
            connection,
            signer,
            signed: 0,
            backlog: Arc::clone(&backlog),
            records: Vec::new(),
            replies: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || group.write_all(&receiver, &telemetry))
            .map_err(Error::internal)?;
        Ok(Self { jobs, backlog, thread: Arc::new(Mutex::new(Some(thread))) })
    }

    /// What the journal hands on.
    pub(super) fn backlog(&self) -> &Arc<Backlog> {
        &self.backlog
    }

    /// Waits until what is in the journal is in the database, or cannot be.
    pub(super) async fn settle(&self) {
        if !self.backlog.is_settled() {
            // Who asks gets what there is.
            let _ = self.run(|_| Ok(())).await;
        }
    }

    /// Runs `work` in the next group; the answer comes when that group is on the disk.
    pub(super) async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> Result<R, Error> {
        answered(|then| self.send(work, then)).await
    }

    /// Runs `work` in the next group, and tells `then` when that group is on the disk, or has
    /// failed. `then` runs on the writer thread, which it must not hold up; here, if nothing is
    /// written any more.
    pub(super) fn send<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
        then: impl FnOnce(Result<R, Error>) + Send + 'static,
    ) {
        if let Some(jobs) = &*self.jobs.lock() {
            let job: Work = Box::new(move |connection| {
                let result = connection.map(|connection| work(connection).map_err(fault));
                Box::new(move |committed| then(committed.and_then(|()| result.unwrap_or_else(|| Err(rolled_back())))))
            });
            // It fails only if the thread is gone, which takes the job and its `then` along.
            let _ = jobs.send(Job::Work(job));
            return;
        }
        then(Err(Error::new(Code::Unavailable, "the host is shutting down")));
    }

    /// Whether nothing is written any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.jobs.lock().is_none()
    }

    /// Finishes what was sent so far, and ends the thread.
    pub(super) async fn stop(&self) {
        self.jobs.lock().take();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// Waits for what `ask` tells the callback it is given.
///
/// # Errors
///
/// What the callback was told; `internal` if it was dropped.
pub async fn answered<R>(ask: impl FnOnce(Box<dyn FnOnce(Result<R, Error>) + Send>)) -> Result<R, Error>
where
    R: Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    // The asker may have left; what was done stays all the same.
    ask(Box::new(move |result| drop(answer.send(result))));
    answered.await.map_err(Error::internal)?
}

/// The thread's own.
struct Group {
    connection: Connection,
    signer: Option<Arc<Signer>>,
    /// The last record of the audit that is known to be signed.
    signed: i64,
    backlog: Arc<Backlog>,
    /// What is to be put into the database: it stays here until that is committed.
    records: Vec<(u64, Record)>,
    replies: Vec<Reply>,
}

impl Group {
    fn write_all(&mut self, jobs: &Receiver<Job>, telemetry: &Telemetry) {
        self.write_jobs(jobs, telemetry);
        self.sign();
    }

    fn write_jobs(&mut self, jobs: &Receiver<Job>, telemetry: &Telemetry) {
        while let Some(first) = self.next(jobs) {
            let begun = Instant::now();
            let committed = self.write(first, jobs);
            let count = u32::try_from(self.replies.len()).unwrap_or(u32::MAX);
            match &committed {
                Ok(()) if count > 0 => telemetry.commits.committed(begun.elapsed(), count),
                Ok(()) => {}
                Err(_) => telemetry.commits.failed(),
            }
            if committed.is_err() && !self.connection.is_autocommit() {
                // Nothing of a group that was not committed may stay behind.
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            self.tell_the_journal(&committed);
            for reply in self.replies.drain(..) {
                // The thread outlives a bug in one of those who wait.
                let _ = catch_unwind(AssertUnwindSafe(|| reply(committed.as_ref().copied().map_err(Error::again))));
            }
        }
    }

    /// The first job of the next group, or none but what is in the journal; nothing at the end.
    fn next(&mut self, jobs: &Receiver<Job>) -> Option<Option<Work>> {
        let gathered = if self.records.is_empty() {
            match jobs.recv().ok()? {
                Job::Work(work) => return Some(Some(work)),
                Job::Wake => Instant::now() + GATHERING,
            }
        } else {
            Instant::now() + AGAIN
        };
        loop {
            match jobs.recv_timeout(gathered.saturating_duration_since(Instant::now())) {
                Ok(Job::Work(work)) => return Some(Some(work)),
                Ok(Job::Wake) => {}
                Err(RecvTimeoutError::Timeout) => return Some(None),
                // Once more for what is left. What cannot be written now, the next start finds in the journal.
                Err(RecvTimeoutError::Disconnected) if self.records.is_empty() => return Some(None),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Runs `first` and all that waits behind it, each after what the journal had before it, and commits.
    fn write(&mut self, first: Option<Work>, jobs: &Receiver<Job>) -> Result<(), Error> {
        let mut done = 0;
        // Before anything can fail: what is in hand is tried again, and the journal hears of it.
        self.backlog.take(&mut self.records);
        let mut begun = run(&self.connection, "BEGIN IMMEDIATE").and_then(|()| self.apply(&mut done));
        let mut next = first;
        while let Some(work) = next {
            // SQLite may roll a group back by itself (a full disk does that): what is left
            // must not run outside a transaction.
            let open = begun.is_ok() && !self.connection.is_autocommit();
            let reply = catch_unwind(AssertUnwindSafe(|| work(open.then_some(&self.connection))));
            // A job may have done half of its part, so that none of the group can be kept. The
            // thread lives on: a bug in one question must not end all writing.
            self.replies.push(reply.map_err(|_| Error::internal("a write panicked"))?);
            next = if open && self.replies.len() < GROUP { waiting(jobs) } else { None };
            // Also behind the last one: what woke the thread meanwhile has been taken out of the line.
            self.backlog.take(&mut self.records);
            if open && !self.connection.is_autocommit() {
                begun = self.apply(&mut done);
            }
        }
        begun?;
        if self.connection.is_autocommit() {
            return Err(rolled_back());
        }
        if let Some(signer) = &self.signer {
            checkpoint_when_due(&self.connection, signer, &mut self.signed).map_err(fault)?;
        }
        run(&self.connection, "COMMIT")
    }

    /// Signs the audit as it stands at the end.
    fn sign(&self) {
        let Some(signer) = &self.signer else { return };
        if let Err(error) = checkpoint(&self.connection, signer, Clock::System.now_ms()) {
            tracing::warn!("The audit could not be signed at the end, and is at the next start: {error}");
        }
    }

    /// Puts what is in hand into the open transaction; the first `done` of it is there.
    fn apply(&mut self, done: &mut usize) -> Result<(), Error> {
        apply(&self.connection, &self.records[*done..]).map_err(fault)?;
        *done = self.records.len();
        Ok(())
    }

    fn tell_the_journal(&mut self, committed: &Result<(), Error>) {
        let Some((last, _)) = self.records.last() else { return };
        match committed {
            Ok(()) => {
                self.backlog.applied(*last);
                self.records.clear();
            }
            Err(error) => {
                // Once, and not at each try.
                if self.backlog.failed(error.again()) {
                    tracing::error!(
                        "What is in the journal cannot be put into the database; it is tried again: {error:?}"
                    );
                }
            }
        }
    }
}

/// A job that waits already.
fn waiting(jobs: &Receiver<Job>) -> Option<Work> {
    loop {
        if let Job::Work(work) = jobs.try_recv().ok()? {
            return Some(work);
        }
    }
}

fn run(connection: &Connection, statement: &str) -> Result<(), Error> {
    connection.prepare_cached(statement).and_then(|mut statement| statement.execute([])).map(drop).map_err(fault)
}

pub(super) fn rolled_back() -> Error {
    Error::new(Code::StorageFull, "the disk of the data directory is full").retry_after(5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_in_one_job_undoes_it_and_the_next_one_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let connection = Connection::open(dir.path().join("db")).unwrap();
        let writer = Writer::start(connection, None, 0, Telemetry::new()).unwrap();
        writer.run(|c| c.execute_batch("CREATE TABLE t (n)")).await.unwrap();
        let failed = writer
            .run::<()>(|c| {
                c.execute_batch("SAVEPOINT job; INSERT INTO t VALUES (1)")?;
                panic!("a bug")
            })
            .await;
        assert_eq!(failed.unwrap_err().code, Code::Internal);
        writer.run(|c| c.execute_batch("INSERT INTO t VALUES (2)")).await.unwrap();
        let all = "SELECT group_concat(n) FROM t";
        let kept: String = writer.run(|c| c.query_row(all, [], |row| row.get(0))).await.unwrap();
        assert_eq!(kept, "2");
    }

    #[tokio::test]
    async fn a_panic_of_one_who_waits_harms_neither_the_others_nor_the_thread() {
        let dir = tempfile::tempdir().unwrap();
        let connection = Connection::open(dir.path().join("db")).unwrap();
        let writer = Writer::start(connection, None, 0, Telemetry::new()).unwrap();
        writer.send(|c| c.execute_batch("CREATE TABLE t (n)"), |_| panic!("a bug"));
        writer.run(|c| c.execute_batch("INSERT INTO t VALUES (1)")).await.unwrap();
    }
}
