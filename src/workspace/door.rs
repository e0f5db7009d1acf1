//! Owners' files for callers: who may, and what went wrong in our own words.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use crate::model::{Caller, Code, Digest, Error, OwnerId, Scope};

use super::{Entry, How, Incoming, Kind, Listing, Opened, RelPath, Space, Workspaces, book};

/// Whose files a caller means, and which.
#[derive(Clone, Debug)]
pub struct FileRef {
    /// Whose, if not the caller's own; admin keys only.
    pub owner: Option<OwnerId>,
    /// The path below the workspace.
    pub path: String,
}

/// What is at a path.
#[derive(Debug)]
pub enum Found {
    /// A file, open, with its bytes. Keep it as it is for as long as it is read.
    File(Arc<File>, u64),
    /// A directory.
    Directory(Listing),
}

/// Which part of a directory to list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The name after which it begins.
    pub after: Option<String>,
    /// Most entries.
    pub limit: usize,
}

impl Workspaces {
    /// What is at a path: the file, or a page of the directory.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `files:read`, `forbidden` for another owner's, `malformed`
    /// for a path that leads out, `not_found`.
    pub async fn get(self: &Arc<Self>, caller: &Caller, at: &FileRef, page: Page) -> Result<Found, Error> {
        let (space, path) = self.find(caller, at, Scope::FilesRead).await?;
        let quota = self.quota(&caller.key);
        let look = move |space: &Space, alone: &super::Alone<'_>| {
            let how = How { read: true, ..How::default() };
            match alone.open(space.root(), &path, how, quota)? {
                Opened::Directory(_) => {
                    alone.list(space.root(), &path, page.after.as_deref(), page.limit).map(Found::Directory)
                }
                Opened::File(file) => {
                    let length = file.metadata()?.len();
                    Ok(Found::File(file, length))
                }
            }
        };
        let inner = Arc::clone(&space);
        space.alone(move |alone| look(&inner, alone)).await.map_err(failure)
    }

    /// Begins to take a file in, of which `announced` bytes are known to come.
    ///
    /// # Errors
    ///
    /// As [`Workspaces::get`], with `files:write`; `storage_full` if so much can never fit.
    pub async fn receive(
        self: &Arc<Self>,
        caller: &Caller,
        at: &FileRef,
        announced: u64,
    ) -> Result<(Incoming, RelPath), Error> {
        let (space, path) = self.find(caller, at, Scope::FilesWrite).await?;
        if path.is_directory() {
            return Err(Error::new(Code::Malformed, "the path is that of a directory; name the file"));
        }
        let quota = self.quota(&caller.key);
        if announced > quota.bytes {
            return Err(failure(Errno::NOSPC.into()));
        }
        Ok((Incoming::begin(space, quota).await.map_err(failure)?, path))
    }

    /// Removes a file, or a directory; with `all` also one with something in it.
    ///
    /// # Errors
    ///
    /// As [`Workspaces::get`], with `files:write`; `conflict` for a directory that is not empty.
    pub async fn remove(self: &Arc<Self>, caller: &Caller, at: &FileRef, all: bool) -> Result<(), Error> {
        let (space, path) = self.find(caller, at, Scope::FilesWrite).await?;
        let inner = Arc::clone(&space);
        let remove = move |alone: &super::Alone<'_>| {
            let root = inner.root();
            match alone.remove_file(root, &path) {
                Err(error) if Errno::from_io_error(&error) == Some(Errno::ISDIR) => {}
                removed => return removed,
            }
            if all { alone.remove_tree(root, &path) } else { alone.remove_directory(root, &path) }
        };
        space.alone(remove).await.map_err(failure)
    }

    /// Bytes and entries of an owner's files; nothing where it never had any.
    ///
    /// # Errors
    ///
    /// `internal`, as the system gives them.
    pub async fn usage(self: &Arc<Self>, owner: &OwnerId) -> Result<(u64, u64), Error> {
        let directory = self.directory.join(Digest::of(owner.as_str().as_bytes()).hex());
        if self.known(owner).is_none() && !directory.exists() {
            return Ok((0, 0));
        }
        // The first time they are counted.
        let space = self.ready(owner).await?;
        let count = Arc::clone(&space);
        space.alone(move |_| Ok(count.usage())).await.map_err(Error::internal)
    }

    /// The files of this owner, whose directory may have to be made: on a thread that may wait.
    ///
    /// # Errors
    ///
    /// `internal`, as the system gives them.
    pub async fn ready(self: &Arc<Self>, owner: &OwnerId) -> Result<Arc<Space>, Error> {
        if let Some(space) = self.known(owner) {
            return Ok(space);
        }
        let (workspaces, owner) = (Arc::clone(self), owner.clone());
        let made = tokio::task::spawn_blocking(move || workspaces.of(&owner));
        made.await.map_err(Error::internal)?.map_err(Error::internal)
    }

    async fn find(
        self: &Arc<Self>,
        caller: &Caller,
        at: &FileRef,
        scope: Scope,
    ) -> Result<(Arc<Space>, RelPath), Error> {
        caller.key.require(scope)?;
        let owner = at.owner.as_ref().unwrap_or(caller.owner());
        if owner != caller.owner() && !caller.key.is_admin() {
            return Err(Error::new(Code::Forbidden, "only an admin key may use another owner's files"));
        }
        let path = if at.path.is_empty() { Ok(RelPath::root()) } else { RelPath::parse(&at.path) };
        let path = path.map_err(failure)?;
        Ok((self.ready(owner).await?, path))
    }
}

impl Incoming {
    /// [`Incoming::write`] in our own words.
    ///
    /// # Errors
    ///
    /// `storage_full`.
    pub async fn add(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.write(bytes).await.map_err(failure)
    }

    /// [`Incoming::place`] in our own words; also says whether nothing was there before.
    ///
    /// # Errors
    ///
    /// `storage_full`, `conflict` where a directory stands.
    pub async fn finish(self, path: RelPath) -> Result<(Entry, bool), Error> {
        let name = path.names().join("/");
        let (stat, is_new) = self.place(path).await.map_err(failure)?;
        let modified_at = super::listing::modified_at(&stat);
        Ok((Entry { name, kind: Kind::File, size: book::length(&stat), modified_at }, is_new))
    }
}

/// A failure of the system in our own words, which name no path of the host.
fn failure(error: io::Error) -> Error {
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Error::not_found("file"),
        Some(Errno::NOSPC | Errno::DQUOT) => {
            let detail =
                "there is no room for it: the quota of the workspace or the disk is used up; remove files first";
            Error::new(Code::StorageFull, detail)
        }
        Some(Errno::ROFS) => {
            Error::new(Code::Unavailable, "the disk of the data directory can only be read").retry_after(5)
        }
        Some(Errno::ISDIR) => Error::new(Code::Conflict, "a directory stands there"),
        Some(Errno::NOTEMPTY) => {
            Error::new(Code::Conflict, "the directory is not empty; ask for `recursive` to remove all of it")
        }
        Some(Errno::EXIST) => Error::new(Code::Conflict, "it exists already"),
        Some(Errno::PERM) => Error::new(Code::Malformed, "the path leads out of the workspace, or to what is no file"),
        Some(Errno::INVAL) => Error::new(Code::Malformed, "the path has a backslash or a control character in it"),
        Some(Errno::NAMETOOLONG) => Error::new(
            Code::Malformed,
            "the path has more than 4096 bytes or 64 names, or a name of more than 255 bytes",
        ),
        _ => Error::internal(error),
    }
}
