//! One owner's directory, and the turns of those who change something in it.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{OFlags, fstatvfs};
use rustix::io::Errno;

use super::alone::Alone;
use super::book::Book;
use super::path::MAX_DEPTH;
use super::{FLOOR, Quota, at};

/// Levels that a count goes down: an operator may have put more there than a guest can.
const COUNTED_DEPTH: usize = 4 * MAX_DEPTH;

/// One owner's files.
#[derive(Debug)]
pub struct Space {
    root: File,
    pub(super) temporary: PathBuf,
    /// Held by whoever changes something. What it guards is the directory, and whether it was counted.
    turn: Arc<tokio::sync::Mutex<bool>>,
    pub(super) book: Mutex<Book>,
}

impl Space {
    pub(super) fn open(directory: &Path, temporary: PathBuf) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let root = File::options().read(true).custom_flags(flags).open(directory)?;
        Ok(Self { root, temporary, turn: Arc::default(), book: Mutex::default() })
    }

    /// The directory.
    pub fn root(&self) -> &File {
        &self.root
    }

    /// Does `work` when nobody else changes anything, on a thread that may wait. What has begun
    /// comes to its end, also when the future is dropped.
    ///
    /// The first time the files are counted, so that after a crash the count is that of what is there.
    ///
    /// # Errors
    ///
    /// Those of `work`, and of the count.
    pub async fn alone<T, W>(self: &Arc<Self>, work: W) -> io::Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Alone<'_>) -> io::Result<T> + Send + 'static,
    {
        let mut counted = Arc::clone(&self.turn).lock_owned().await;
        let space = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            if !*counted {
                space.count()?;
                *counted = true;
            }
            work(&Alone::new(&space))
        });
        done.await.map_err(io::Error::other)?
    }

    /// Bytes and entries, as they are counted now.
    pub fn usage(&self) -> (u64, u64) {
        self.book.lock().usage()
    }

    /// Takes `bytes` more of the quota, if the disk has them.
    pub(super) fn reserve(&self, bytes: u64, quota: Quota) -> io::Result<()> {
        if bytes > 0 {
            let disk = fstatvfs(&self.root)?;
            if disk.f_bavail.saturating_mul(disk.f_frsize) < bytes.saturating_add(FLOOR) {
                return Err(Errno::NOSPC.into());
            }
        }
        self.book.lock().reserve(bytes, quota)
    }

    fn count(&self) -> io::Result<()> {
        let mut book = Book::default();
        at::count(&self.root, &mut book, COUNTED_DEPTH)?;
        let (bytes, entries) = book.usage();
        // What is on its way in was reserved before.
        self.book.lock().add(bytes, entries);
        Ok(())
    }
}
