//! What changes a workspace, and what is opened in it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, OFlags, Stat, fstat, mkdirat, renameat, unlinkat};
use rustix::io::Errno;

use super::book::{id, length};
use super::path::MAX_DEPTH;
use super::{Quota, RelPath, Space, at};

/// One who changes things, while nobody else does.
pub struct Alone<'a> {
    space: &'a Space,
}

/// How to open something.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// To read from.
    pub read: bool,
    /// To write to.
    pub write: bool,
    /// Make the file if it is not there.
    pub create: bool,
    /// Refuse if it is there.
    pub exclusive: bool,
    /// Make it empty.
    pub truncate: bool,
    /// Refuse what is no directory.
    pub directory: bool,
}

/// Something open.
#[derive(Debug)]
pub enum Opened {
    /// A file; keep it as it is, that it counts as open.
    File(Arc<File>),
    /// A directory.
    Directory(File),
}

impl<'a> Alone<'a> {
    pub(super) fn new(space: &'a Space) -> Self {
        Self { space }
    }

    /// Opens what lies at `path` below `from`.
    ///
    /// # Errors
    ///
    /// `ENOSPC` for a new file that the quota has no place for, and as the system gives them.
    pub fn open(&self, from: &File, path: &RelPath, how: How, quota: Quota) -> io::Result<Opened> {
        if path.is_root() {
            if how.write || how.create || how.truncate {
                return Err(Errno::ISDIR.into());
            }
            return from.try_clone().map(Opened::Directory);
        }
        let (before, name) = path.split()?;
        let parent = at::descend(from, before)?;
        let wants_directory = how.directory || path.is_directory();
        if how.create && at::find(&parent, name)?.is_none() {
            if wants_directory {
                return Err(Errno::INVAL.into());
            }
            return self.make(&parent, name, quota);
        }
        if how.create && how.exclusive {
            return Err(Errno::EXIST.into());
        }
        let flags = match (how.read, how.write || how.truncate) {
            (_, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
        };
        let (file, stat) = at::open(&parent, name, flags)?;
        if at::kind(&stat) == FileType::Directory {
            return Ok(Opened::Directory(file));
        }
        if wants_directory {
            return Err(Errno::NOTDIR.into());
        }
        if how.truncate {
            self.set_size(&file, 0, quota)?;
        }
        Ok(self.watched(file, id(&stat)))
    }

    fn make(&self, parent: &File, name: &str, quota: Quota) -> io::Result<Opened> {
        self.space.book.lock().require_entry(quota)?;
        let (file, stat) = at::open(parent, name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        self.space.book.lock().made();
        Ok(self.watched(file, id(&stat)))
    }

    fn watched(&self, file: File, id: (u64, u64)) -> Opened {
        let file = Arc::new(file);
        self.space.book.lock().watch(id, &file);
        Opened::File(file)
    }

    /// Writes all of `bytes` at a place, or at the end; or nothing, if the quota has no room for it.
    ///
    /// # Errors
    ///
    /// `ENOSPC`, and as the system gives them.
    pub fn write(&self, file: &File, bytes: &[u8], at: Option<u64>, quota: Quota) -> io::Result<()> {
        let before = fstat(file)?;
        let offset = at.unwrap_or(length(&before));
        let end = offset.checked_add(bytes.len() as u64).ok_or(Errno::FBIG)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.grow(file, end.max(length(&before)), quota, || file.write_all_at(bytes, offset))
    }

    /// Makes a file as long as `size`. A hole counts as what it stands for.
    ///
    /// # Errors
    ///
    /// `ENOSPC`, and as the system gives them.
    pub fn set_size(&self, file: &File, size: u64, quota: Quota) -> io::Result<()> {
        self.grow(file, size, quota, || file.set_len(size))
    }

    /// Does what makes a file as long as `to`; counts what it grew by before, and what it is after.
    fn grow(&self, file: &File, to: u64, quota: Quota, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let before = fstat(file)?;
        if at::kind(&before) != FileType::RegularFile {
            return Err(Errno::INVAL.into());
        }
        let from = length(&before);
        self.space.reserve(to.saturating_sub(from), quota)?;
        let done = work();
        let after = fstat(file).map_or(to, |stat| length(&stat));
        self.space.book.lock().resized(id(&before), to.max(from), after);
        done
    }

    /// Sets when a file or directory was read and written.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub fn set_times(&self, from: &File, path: &RelPath, times: std::fs::FileTimes) -> io::Result<()> {
        let (before, name) = path.split()?;
        at::open(&at::descend(from, before)?, name, OFlags::RDONLY)?.0.set_times(times)
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// `ENOSPC`, `ENAMETOOLONG` where it would lie too deep, and as the system gives them.
    pub fn create_directory(&self, from: &File, path: &RelPath, quota: Quota) -> io::Result<()> {
        let (before, name) = path.split()?;
        let parent = at::descend(from, before)?;
        self.make_directory(&parent, name, quota)
    }

    fn make_directory(&self, parent: &File, name: &str, quota: Quota) -> io::Result<()> {
        if at::find(parent, name)?.is_some() {
            return Err(Errno::EXIST.into());
        }
        if at::depth(parent, self.space.root())? + 1 > MAX_DEPTH {
            return Err(Errno::NAMETOOLONG.into());
        }
        self.space.book.lock().require_entry(quota)?;
        mkdirat(parent, name, at::DIRECTORY_MODE)?;
        self.space.book.lock().made();
        Ok(())
    }

    /// Removes a directory with nothing in it.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub fn remove_directory(&self, from: &File, path: &RelPath) -> io::Result<()> {
        let (before, name) = path.split()?;
        let parent = at::descend(from, before)?;
        unlinkat(&parent, name, AtFlags::REMOVEDIR)?;
        self.space.book.lock().removed_directory();
        Ok(())
    }

    /// Removes a directory with all that is in it.
    ///
    /// # Errors
    ///
    /// As the system gives them; some of it may be gone then.
    pub fn remove_tree(&self, from: &File, path: &RelPath) -> io::Result<()> {
        let (before, name) = path.split()?;
        let directory = at::open_directory(&at::descend(from, before)?, name)?;
        at::clear(&directory, &self.space.book, 4 * MAX_DEPTH)?;
        self.remove_directory(from, path)
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub fn remove_file(&self, from: &File, path: &RelPath) -> io::Result<()> {
        let (before, name) = path.split()?;
        if path.is_directory() {
            return Err(Errno::ISDIR.into());
        }
        let parent = at::descend(from, before)?;
        let stat = at::look(&parent, name)?;
        if at::kind(&stat) == FileType::Directory {
            return Err(Errno::ISDIR.into());
        }
        unlinkat(&parent, name, AtFlags::empty())?;
        self.space.book.lock().removed(&stat);
        Ok(())
    }

    /// Gives a file or directory another name; a file that had it is gone then.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub fn rename(&self, from: (&File, &RelPath), to: (&File, &RelPath)) -> io::Result<()> {
        let (before, old_name) = from.1.split()?;
        let old_parent = at::descend(from.0, before)?;
        let (before, new_name) = to.1.split()?;
        let new_parent = at::descend(to.0, before)?;
        let moved = at::look(&old_parent, old_name)?;
        match at::kind(&moved) {
            FileType::Directory => {
                let directory = at::open_directory(&old_parent, old_name)?;
                let depth = at::depth(&new_parent, self.space.root())?;
                at::height(&directory, MAX_DEPTH.saturating_sub(depth))?;
            }
            FileType::RegularFile if from.1.is_directory() || to.1.is_directory() => return Err(Errno::NOTDIR.into()),
            FileType::RegularFile => drop(at::depth(&new_parent, self.space.root())?),
            // A link, or worse, that an operator left.
            _ => return Err(Errno::PERM.into()),
        }
        let replaced = at::find(&new_parent, new_name)?;
        let is_ours = |stat: &Stat| matches!(at::kind(stat), FileType::RegularFile | FileType::Directory);
        if replaced.as_ref().is_some_and(|stat| !is_ours(stat)) {
            return Err(Errno::PERM.into());
        }
        renameat(&old_parent, old_name, &new_parent, new_name)?;
        self.replaced(replaced.filter(|stat| id(stat) != id(&moved)).as_ref());
        Ok(())
    }

    fn replaced(&self, stat: Option<&Stat>) {
        let mut book = self.space.book.lock();
        match stat {
            Some(stat) if at::kind(stat) == FileType::Directory => book.removed_directory(),
            Some(stat) => book.removed(stat),
            None => {}
        }
    }

    /// Puts the file at `source` in place of what is at `path`, and makes the directories above
    /// it. The bytes were reserved before.
    pub(super) fn place(&self, source: &Path, path: &RelPath, quota: Quota) -> io::Result<(Stat, bool)> {
        let (before, name) = path.split()?;
        let mut parent = self.space.root().try_clone()?;
        for name in before {
            if at::find(&parent, name)?.is_none() {
                self.make_directory(&parent, name, quota)?;
                parent.sync_all()?;
            }
            parent = at::open_directory(&parent, name)?;
        }
        let replaced = at::find(&parent, name)?;
        match replaced.as_ref().map(at::kind) {
            Some(FileType::Directory) => return Err(Errno::ISDIR.into()),
            Some(_) => {}
            None => self.space.book.lock().require_entry(quota)?,
        }
        renameat(rustix::fs::CWD, source, &parent, name)?;
        self.space.book.lock().made();
        self.replaced(replaced.as_ref());
        parent.sync_all()?;
        Ok((at::look(&parent, name)?, replaced.is_none()))
    }
}
