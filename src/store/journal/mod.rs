//! The journal: where the steps of executions are on the disk first, so that nobody waits for
//! SQLite. A record that was answered for is in one of two files; the writer puts what has
//! gathered there into the database some milliseconds later, many in one commit, and a start
//! does so with what a dead host left.

mod backlog;
mod record;
mod segments;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;

use crate::model::{Code, Error};
use crate::telemetry::Telemetry;

use self::segments::{Segments, framed};

pub(super) use self::backlog::Backlog;
pub(super) use self::record::{Groups, Record, Step, Values};
pub(crate) use self::segments::FILE_NAMES;

/// Longest record, in bytes. Longer ones go to the database at once.
pub(super) const MAX_RECORD: usize = 64 << 10;
/// Most bytes, and most records, of one sync: bounds how long the first of a group waits for the last.
const GROUP_BYTES: usize = 1 << 20;
const GROUP: usize = 512;

/// A record, and who waits for it.
struct Entry {
    record: Record,
    then: Box<dyn FnOnce(Result<(), Error>) + Send>,
}

/// The way to the thread that writes the journal.
#[derive(Clone)]
pub(super) struct Journal {
    entries: Arc<Mutex<Option<Sender<Entry>>>>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// A journal whose files are open, and what a dead host left in them.
pub(super) struct Opened {
    segments: Segments,
    /// The records with their numbers, in their order.
    pub(super) left: Vec<(u64, Record)>,
}

impl Opened {
    /// Opens the files in `dir`.
    ///
    /// # Errors
    ///
    /// `internal` if the disk does not play along.
    pub(super) fn new(dir: &Path) -> Result<Self, Error> {
        let (segments, found) = Segments::open(dir).map_err(Error::internal)?;
        Ok(Self { segments, left: found.records })
    }

    /// Starts the thread. What was left must be in the database by now: it is overwritten.
    /// `next` is the number of the next record; records go on to `backlog`.
    ///
    /// # Errors
    ///
    /// `internal` if there can be no thread.
    pub(super) fn start(self, next: u64, backlog: Arc<Backlog>, telemetry: Arc<Telemetry>) -> Result<Journal, Error> {
        let (sender, receiver) = channel();
        let keeper = Keeper { segments: self.segments, next, backlog, telemetry };
        let thread = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || keeper.keep(&receiver))
            .map_err(Error::internal)?;
        Ok(Journal { entries: Arc::new(Mutex::new(Some(sender))), thread: Arc::new(Mutex::new(Some(thread))) })
    }
}

impl Journal {
    /// Keeps a record, and tells `then` when it is on the disk, or cannot be. `then` runs on the
    /// journal's thread, which it must not hold up; here, if nothing is written any more.
    pub(super) fn keep(&self, record: Record, then: impl FnOnce(Result<(), Error>) + Send + 'static) {
        let entry = Entry { record, then: Box::new(then) };
        if let Some(entries) = &*self.entries.lock() {
            // It fails only if the thread is gone, which takes the entry and its `then` along.
            let _ = entries.send(entry);
            return;
        }
        (entry.then)(Err(Error::new(Code::Unavailable, "the host is shutting down")));
    }

    /// Finishes what was sent so far, and ends the thread.
    pub(super) async fn stop(&self) {
        self.entries.lock().take();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// The thread's own.
struct Keeper {
    segments: Segments,
    next: u64,
    backlog: Arc<Backlog>,
    telemetry: Arc<Telemetry>,
}

impl Keeper {
    fn keep(mut self, entries: &Receiver<Entry>) {
        while let Ok(first) = entries.recv() {
            let group = self.group(first, entries);
            let begun = Instant::now();
            match self.write(&group) {
                Ok(()) => self.kept(group, begun),
                Err(error) => {
                    self.telemetry.commits.failed();
                    for entry in group {
                        answer(entry.then, Err(error.again()));
                    }
                }
            }
        }
    }

    /// What is written together. Those that would begin are refused while the database takes
    /// nothing: what has begun needs the room that is left.
    fn group(&self, first: Entry, entries: &Receiver<Entry>) -> Vec<Entry> {
        let trouble = self.backlog.trouble();
        let (mut group, mut bytes) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(entry) = next {
            match &trouble {
                Some(error) if entry.record.step() == Step::Open => answer(entry.then, Err(error.again())),
                _ => {
                    bytes += entry.record.len();
                    group.push(entry);
                }
            }
            next = if group.len() < GROUP && bytes < GROUP_BYTES { entries.try_recv().ok() } else { None };
        }
        group
    }

    fn write(&mut self, group: &[Entry]) -> Result<(), Error> {
        if group.is_empty() {
            return Ok(());
        }
        let bytes = framed(group.iter().map(|entry| entry.record.len()));
        if let Some(last) = self.segments.will_overwrite(bytes) {
            self.backlog.wait_for(last)?;
        }
        // These numbers are used now, also if it fails.
        let first = self.next;
        self.next += group.len() as u64;
        self.segments.append(first, group.iter().map(|entry| &entry.record)).map_err(|error| {
            let full = error.kind() == std::io::ErrorKind::StorageFull;
            if full { super::writer::rolled_back() } else { Error::internal(error) }
        })
    }

    /// Hands on what was written, and then answers: who asks after an answer finds the record.
    fn kept(&mut self, group: Vec<Entry>, begun: Instant) {
        if group.is_empty() {
            return;
        }
        let count = u32::try_from(group.len()).unwrap_or(u32::MAX);
        self.telemetry.commits.committed(begun.elapsed(), count);
        let (mut records, mut waiting) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
        for (number, Entry { record, then }) in (self.next - u64::from(count)..).zip(group) {
            records.push((number, record));
            waiting.push(then);
        }
        self.backlog.add(records);
        for then in waiting {
            answer(then, Ok(()));
        }
    }
}

/// Tells one who waits; the thread outlives a bug there.
fn answer(then: Box<dyn FnOnce(Result<(), Error>) + Send>, result: Result<(), Error>) {
    let _ = catch_unwind(AssertUnwindSafe(|| then(result)));
}

#[cfg(test)]
mod tests;
