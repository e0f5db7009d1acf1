//! The one thread that writes, and commits what has gathered as one group.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::model::{Code, Error};
use crate::telemetry::Telemetry;

use super::fault::fault;

/// Most jobs in one commit: bounds how long the first of a group waits for the last.
const GROUP: usize = 512;

/// Does its part inside the open transaction (or nothing, if there is none), and gives back
/// what to do once that is committed, or has failed.
type Job = Box<dyn FnOnce(Option<&Connection>) -> Reply + Send>;
type Reply = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// The way to the writer thread.
#[derive(Clone)]
pub(super) struct Writer {
    jobs: Arc<Mutex<Option<Sender<Job>>>>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Writer {
    /// Starts the thread, which owns `connection`.
    pub(super) fn start(connection: Connection, telemetry: Arc<Telemetry>) -> Result<Self, Error> {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || write_groups(&connection, &receiver, &telemetry))
            .map_err(Error::internal)?;
        let jobs = Arc::new(Mutex::new(Some(sender)));
        Ok(Self { jobs, thread: Arc::new(Mutex::new(Some(thread))) })
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
            let job: Job = Box::new(move |connection| {
                let result = connection.map(|connection| work(connection).map_err(fault));
                Box::new(move |committed| then(committed.and_then(|()| result.unwrap_or_else(|| Err(rolled_back())))))
            });
            // It fails only if the thread is gone, which takes the job and its `then` along.
            let _ = jobs.send(job);
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

fn write_groups(connection: &Connection, jobs: &Receiver<Job>, telemetry: &Telemetry) {
    let mut replies = Vec::with_capacity(GROUP);
    while let Ok(first) = jobs.recv() {
        let begun = Instant::now();
        let committed = write_group(connection, first, jobs, &mut replies);
        match &committed {
            Ok(()) => telemetry.commits.committed(begun.elapsed(), u32::try_from(replies.len()).unwrap_or(u32::MAX)),
            Err(_) => telemetry.commits.failed(),
        }
        if committed.is_err() && !connection.is_autocommit() {
            // Nothing of a group that was not committed may stay behind.
            let _ = connection.execute_batch("ROLLBACK");
        }
        for reply in replies.drain(..) {
            // The thread outlives a bug in one of those who wait.
            let _ = catch_unwind(AssertUnwindSafe(|| reply(committed.as_ref().copied().map_err(copy))));
        }
    }
}

/// Runs `first` and all that waits behind it, and commits.
fn write_group(
    connection: &Connection,
    first: Job,
    jobs: &Receiver<Job>,
    replies: &mut Vec<Reply>,
) -> Result<(), Error> {
    let begun = run(connection, "BEGIN IMMEDIATE");
    let mut next = Some(first);
    while let Some(job) = next {
        // SQLite may roll a group back by itself (a full disk does that): what is left
        // must not run outside a transaction.
        let open = !connection.is_autocommit();
        let done = catch_unwind(AssertUnwindSafe(|| job(open.then_some(connection))));
        // A job may have done half of its part, so that none of the group can be kept. The
        // thread lives on: a bug in one question must not end all writing.
        replies.push(done.map_err(|_| Error::internal("a write panicked"))?);
        next = if open && replies.len() < GROUP { jobs.try_recv().ok() } else { None };
    }
    begun?;
    if connection.is_autocommit() {
        return Err(rolled_back());
    }
    run(connection, "COMMIT")
}

fn run(connection: &Connection, statement: &str) -> Result<(), Error> {
    connection.prepare_cached(statement).and_then(|mut statement| statement.execute([])).map(drop).map_err(fault)
}

fn rolled_back() -> Error {
    Error::new(Code::StorageFull, "the disk of the data directory is full").retry_after(5)
}

/// The same error for another asker of the group.
fn copy(error: &Error) -> Error {
    Error { source: None, fields: error.fields.clone(), ..Error::new(error.code, error.detail.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_in_one_job_undoes_it_and_the_next_one_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let connection = Connection::open(dir.path().join("db")).unwrap();
        let writer = Writer::start(connection, Telemetry::new()).unwrap();
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
        let writer = Writer::start(connection, Telemetry::new()).unwrap();
        writer.send(|c| c.execute_batch("CREATE TABLE t (n)"), |_| panic!("a bug"));
        writer.run(|c| c.execute_batch("INSERT INTO t VALUES (1)")).await.unwrap();
    }
}
