//! What one owner has lying, counted as it changes.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Weak};

use rustix::fs::Stat;
use rustix::io::Errno;

use super::Quota;

/// Open files that are known before those that were closed are looked for.
const SWEEP: usize = 64;

/// Which file it is, whatever it is called: device and number.
pub(super) type FileId = (u64, u64);

/// The file that `stat` is of.
pub(super) fn id(stat: &Stat) -> FileId {
    (stat.st_dev, stat.st_ino)
}

/// How many bytes the file has.
pub(super) fn length(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

/// Bytes and entries of one workspace. A file that was removed counts as long as somebody has
/// it open: the disk gives its bytes back no sooner.
#[derive(Debug, Default)]
pub(super) struct Book {
    bytes: u64,
    entries: u64,
    open: HashMap<FileId, Vec<Weak<File>>>,
    gone: HashMap<FileId, u64>,
    sweep_at: usize,
}

impl Book {
    /// Adds what a walk found.
    pub(super) fn found(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.entries += 1;
    }

    /// Adds what was counted.
    pub(super) fn add(&mut self, bytes: u64, entries: u64) {
        self.bytes += bytes;
        self.entries += entries;
    }

    /// Bytes and entries.
    pub(super) fn usage(&self) -> (u64, u64) {
        (self.bytes, self.entries)
    }

    /// Takes `bytes` more.
    pub(super) fn reserve(&mut self, bytes: u64, quota: Quota) -> io::Result<()> {
        let fits = |book: &Self| book.bytes.checked_add(bytes).is_some_and(|all| all <= quota.bytes);
        if !fits(self) {
            self.settle();
        }
        if bytes > 0 && !fits(self) {
            return Err(Errno::NOSPC.into());
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Gives bytes back that were reserved.
    pub(super) fn release(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Refuses if there is no place for one entry more.
    pub(super) fn require_entry(&self, quota: Quota) -> io::Result<()> {
        if self.entries < quota.files { Ok(()) } else { Err(Errno::NOSPC.into()) }
    }

    /// An entry was made.
    pub(super) fn made(&mut self) {
        self.entries += 1;
    }

    /// A directory was removed.
    pub(super) fn removed_directory(&mut self) {
        self.entries = self.entries.saturating_sub(1);
    }

    /// A file was removed, or another took its place.
    pub(super) fn removed(&mut self, stat: &Stat) {
        self.entries = self.entries.saturating_sub(1);
        let (id, bytes) = (id(stat), length(stat));
        if self.is_open(id) && stat.st_nlink <= 1 {
            self.gone.insert(id, bytes);
        } else {
            self.release(bytes);
        }
        self.settle();
    }

    /// A file has another length now; what it grew by was reserved.
    pub(super) fn resized(&mut self, id: FileId, from: u64, to: u64) {
        if to < from {
            self.release(from - to);
        }
        if let Some(bytes) = self.gone.get_mut(&id) {
            *bytes = to;
        }
    }

    /// Remembers that a file is open as long as `file` lives.
    pub(super) fn watch(&mut self, id: FileId, file: &Arc<File>) {
        if self.open.len() >= self.sweep_at.max(SWEEP) {
            self.settle();
            self.open.retain(|_, files| files.iter().any(|file| file.strong_count() > 0));
            self.sweep_at = self.open.len() * 2;
        }
        if !self.is_open(id) {
            // The number may be a file's that is no more.
            self.settle();
        }
        let files = self.open.entry(id).or_default();
        files.retain(|file| file.strong_count() > 0);
        files.push(Arc::downgrade(file));
    }

    fn is_open(&self, id: FileId) -> bool {
        self.open.get(&id).is_some_and(|files| files.iter().any(|file| file.strong_count() > 0))
    }

    /// Gives back the bytes of removed files that nobody has open any more.
    fn settle(&mut self) {
        let closed: Vec<_> = self.gone.keys().copied().filter(|id| !self.is_open(*id)).collect();
        for id in closed {
            let bytes = self.gone.remove(&id).unwrap_or_default();
            self.release(bytes);
            self.open.remove(&id);
        }
    }
}
