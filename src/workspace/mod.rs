//! Each owner's files: one directory, below which every path stays, and never more in it than
//! the quota says.
//!
//! A [`Space`] is the only way into it, for guests and for callers alike. What changes
//! anything is done by [`Alone`], one at a time for each owner, on threads that may wait: so
//! what is written is counted before it is there, whoever writes at the same time.

mod alone;
mod at;
mod book;
mod door;
mod grant;
mod listing;
mod path;
mod put;
mod space;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::files;
use crate::model::{Digest, Error, Key, OwnerId};

pub use self::alone::{Alone, How, Opened};
pub use self::door::{FileRef, Found, Page};
pub use self::grant::{Quota, WorkspaceGrant};
pub use self::listing::{Entry, Kind, Listing};
pub use self::path::RelPath;
pub use self::put::Incoming;
pub use self::space::Space;

/// What an owner may leave lying if nothing else is said: 1 GiB in 10,000 files and directories.
pub const DEFAULT_QUOTA: Quota = Quota { bytes: 1 << 30, files: 10_000 };
/// Bytes of the disk that files leave free: what runs must still be written down.
const FLOOR: u64 = 256 << 20;

/// Which directory is whose.
#[derive(Debug)]
pub struct Workspaces {
    directory: PathBuf,
    temporary: PathBuf,
    quota: Quota,
    empty: File,
    spaces: Mutex<HashMap<OwnerId, Arc<Space>>>,
}

impl Workspaces {
    /// The workspaces below `directory`. What is on its way lies in `temporary`, on the same disk.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub fn open(directory: PathBuf, temporary: PathBuf, quota: Quota) -> io::Result<Self> {
        // What those see who were given nothing. No owner's hash is this word.
        let empty = directory.join("empty");
        files::create_private_directory(&empty)?;
        let empty = File::open(empty)?;
        Ok(Self { directory, temporary, quota, empty, spaces: Mutex::default() })
    }

    /// A directory with nothing in it.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub fn empty(&self) -> io::Result<File> {
        self.empty.try_clone()
    }

    /// What may lie there when `key` writes: what its ceilings say, and where they say nothing,
    /// what the host does.
    pub fn quota(&self, key: &Key) -> Quota {
        let (bytes, files) = key.max_files();
        Quota { bytes: bytes.unwrap_or(self.quota.bytes), files: files.unwrap_or(self.quota.files) }
    }

    fn known(&self, owner: &OwnerId) -> Option<Arc<Space>> {
        self.spaces.lock().get(owner).map(Arc::clone)
    }

    /// Where the files of this owner lie, if it has some.
    fn directory_of(&self, owner: &OwnerId) -> PathBuf {
        self.directory.join(Digest::of(owner.as_str().as_bytes()).hex())
    }

    /// Whether this owner has a directory.
    pub(crate) fn has(&self, owner: &OwnerId) -> bool {
        self.directory_of(owner).exists()
    }

    /// Removes the files of this owner. Who has the directory open writes what nobody finds.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub(crate) async fn erase(&self, owner: &OwnerId) -> Result<(), Error> {
        let (from, to) = (self.directory_of(owner), self.temporary.join(uuid::Uuid::now_v7().to_string()));
        self.spaces.lock().remove(owner);
        let removed = move || match std::fs::rename(from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            moved => moved.and_then(|()| std::fs::remove_dir_all(to)),
        };
        let removed = tokio::task::spawn_blocking(removed).await.map_err(Error::internal)?;
        removed.map_err(Error::internal)
    }

    /// The files of this owner. The directory is made if it is not there, named by the SHA-256
    /// of the owner's id, so that no id is a path.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub fn of(&self, owner: &OwnerId) -> io::Result<Arc<Space>> {
        let mut spaces = self.spaces.lock();
        if let Some(space) = spaces.get(owner) {
            return Ok(Arc::clone(space));
        }
        let directory = self.directory_of(owner);
        files::create_private_directory(&directory)?;
        let space = Arc::new(Space::open(&directory, self.temporary.clone())?);
        spaces.insert(owner.clone(), Arc::clone(&space));
        Ok(space)
    }
}

#[cfg(test)]
mod tests;
