//! When what was committed is on the disk, and who is told then.
//!
//! SQLite commits without waiting for the disk (`synchronous=NORMAL`): it orders what a crash must
//! not reorder, and this syncs its write-ahead log before anybody hears of a commit. So one group
//! is written while the one before it is on its way to the disk.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::watch;

use crate::model::{Code, Error};
use crate::telemetry::Telemetry;

/// What is done once a job's group is on the disk, or has failed.
pub(super) type Reply = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// Groups that wait behind the one that is being synced. When there are so many the writer waits
/// too, and what it writes next gathers.
const WAITING: usize = 1;

/// A group that was committed.
pub(super) struct Group {
    replies: Vec<Reply>,
    begun: Instant,
    number: u64,
}

/// The writer's end: takes committed groups, and tells their askers.
pub(super) struct Disk {
    log: Arc<Log>,
    groups: Option<SyncSender<Group>>,
    thread: Option<JoinHandle<()>>,
}

/// The write-ahead log, and how far it is on the disk.
pub(super) struct Log {
    path: PathBuf,
    /// Opened at the first sync and never closed; it is the database's as long as that is open.
    file: OnceLock<File>,
    /// How many groups were committed, and how many of them are on the disk.
    committed: AtomicU64,
    synced: watch::Sender<u64>,
    /// Groups that were handed over and not yet told.
    under_way: AtomicUsize,
    /// What was written may be lost, whatever a later sync says.
    broken: AtomicBool,
    telemetry: Arc<Telemetry>,
}

impl Log {
    /// The log of a database, which need not be there yet.
    pub(super) fn of(path: PathBuf, telemetry: Arc<Telemetry>) -> Arc<Self> {
        let synced = watch::Sender::new(0);
        let (file, committed) = (OnceLock::new(), AtomicU64::new(0));
        let (under_way, broken) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { path, file, committed, synced, under_way, broken, telemetry })
    }

    /// Waits until all that was committed so far is on the disk: whoever read it may then say so.
    ///
    /// # Errors
    ///
    /// `unavailable` if the disk failed.
    pub(super) async fn is_on_disk(&self) -> Result<(), Error> {
        let seen = self.committed.load(Ordering::Acquire);
        if *self.synced.borrow() < seen {
            let mut synced = self.synced.subscribe();
            // The sender is in here.
            let _ = synced.wait_for(|synced| *synced >= seen || self.broken.load(Ordering::Acquire)).await;
        }
        self.usable()
    }

    fn usable(&self) -> Result<(), Error> {
        if self.broken.load(Ordering::Acquire) { Err(lost()) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        if let Some(file) = self.file.get() {
            return file.sync_data();
        }
        let file = File::open(&self.path)?;
        self.file.get_or_init(|| file).sync_data()
    }

    /// Brings groups to the disk, the last one last, and tells those who wait for them.
    fn settle(&self, groups: impl IntoIterator<Item = Group>, last: u64) {
        let synced = self.usable().and_then(|()| {
            self.sync().map_err(|error| {
                tracing::error!("The database's log could not be synced; nothing more is written: {error}");
                self.broken.store(true, Ordering::Release);
                lost()
            })
        });
        self.synced.send_modify(|synced| *synced = (*synced).max(if self.usable().is_ok() { last } else { *synced }));
        for group in groups {
            match &synced {
                Ok(()) => self.telemetry.commits.committed(group.begun.elapsed(), count(&group.replies)),
                Err(_) => self.telemetry.commits.failed(),
            }
            tell(group.replies, synced.as_ref().err());
        }
    }
}

impl Disk {
    /// Starts the thread that syncs.
    pub(super) fn start(log: Arc<Log>) -> Result<Self, Error> {
        let (groups, waiting) = sync_channel(WAITING);
        let of_thread = Arc::clone(&log);
        let thread = std::thread::Builder::new()
            .name("store-disk".into())
            .spawn(move || settle_groups(&of_thread, &waiting))
            .map_err(Error::internal)?;
        Ok(Self { log, groups: Some(groups), thread: Some(thread) })
    }

    /// # Errors
    ///
    /// `unavailable` once the disk has failed.
    pub(super) fn usable(&self) -> Result<(), Error> {
        self.log.usable()
    }

    /// A group that was committed just now.
    pub(super) fn committed(&self, replies: Vec<Reply>, begun: Instant) -> Group {
        let number = self.log.committed.fetch_add(1, Ordering::AcqRel) + 1;
        Group { replies, begun, number }
    }

    /// Sees to it that a group comes to the disk and its askers are told: behind the caller if
    /// `others_wait` or are on their way there, else here, which saves the way to another thread.
    pub(super) fn settle(&self, group: Group, others_wait: bool) {
        let is_idle = self.log.under_way.load(Ordering::Acquire) == 0;
        let Some(groups) = self.groups.as_ref().filter(|_| others_wait || !is_idle) else {
            let number = group.number;
            return self.log.settle([group], number);
        };
        self.log.under_way.fetch_add(1, Ordering::AcqRel);
        // It fails only if the thread is gone, which takes the replies along.
        let _ = groups.send(group);
    }

    /// Tells those whose group was not committed.
    pub(super) fn failed(&self, replies: Vec<Reply>, error: &Error) {
        self.log.telemetry.commits.failed();
        tell(replies, Some(error));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.groups.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn settle_groups(log: &Log, waiting: &Receiver<Group>) {
    while let Ok(first) = waiting.recv() {
        let mut groups = vec![first];
        groups.extend(waiting.try_iter());
        let (count, last) = (groups.len(), groups.last().map_or(0, |group| group.number));
        log.settle(groups, last);
        log.under_way.fetch_sub(count, Ordering::AcqRel);
    }
}

fn tell(replies: Vec<Reply>, error: Option<&Error>) {
    for reply in replies {
        // The thread outlives a bug in one of those who wait.
        let _ = catch_unwind(AssertUnwindSafe(|| reply(error.map_or(Ok(()), |error| Err(copy(error))))));
    }
}

/// The same error for another asker of the group.
fn copy(error: &Error) -> Error {
    Error { source: None, fields: error.fields.clone(), ..Error::new(error.code, error.detail.clone()) }
}

fn count(replies: &[Reply]) -> u32 {
    u32::try_from(replies.len()).unwrap_or(u32::MAX)
}

fn lost() -> Error {
    let detail = "the disk of the data directory lost what was written; see to the disk and restart the host";
    Error::new(Code::Unavailable, detail)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn told(into: &std::sync::mpsc::Sender<Result<(), Code>>) -> Reply {
        let into = into.clone();
        Box::new(move |result| into.send(result.map_err(|error| error.code)).unwrap())
    }

    #[tokio::test]
    async fn what_was_read_is_not_said_before_it_is_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "frames").unwrap();
        let log = Log::of(path, Telemetry::new());
        log.is_on_disk().await.unwrap();
        let disk = Disk::start(Arc::clone(&log)).unwrap();
        let (sender, receiver) = channel();
        let group = disk.committed(vec![told(&sender)], Instant::now());
        let mut reader = Box::pin(log.is_on_disk());
        assert!(futures_util::poll!(&mut reader).is_pending());
        disk.settle(group, true);
        reader.await.unwrap();
        assert_eq!(receiver.recv().unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn a_disk_that_failed_once_is_not_trusted_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = Log::of(path.clone(), Telemetry::new());
        let disk = Disk::start(Arc::clone(&log)).unwrap();
        let (sender, receiver) = channel();
        for others_wait in [false, true] {
            let group = disk.committed(vec![told(&sender)], Instant::now());
            disk.settle(group, others_wait);
            assert_eq!(receiver.recv().unwrap(), Err(Code::Unavailable));
            // A later sync would succeed, and say nothing of what the first one lost.
            std::fs::write(&path, "frames").unwrap();
        }
        assert_eq!(log.is_on_disk().await.unwrap_err().code, Code::Unavailable);
        assert!(disk.usable().is_err());
    }
}
