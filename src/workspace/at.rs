//! Calls on names in an open directory. No link is followed, by any of them.

use std::ffi::CStr;
use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::book::{Book, id, length};
use super::path::MAX_DEPTH;

/// Files and directories are this user's alone.
pub(super) const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
pub(super) const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o700);

/// Opens the directory behind `names`, one name at a time: none of them can be a link, so that
/// there is no way out, whatever is renamed meanwhile.
pub(super) fn descend(from: &File, names: &[String]) -> io::Result<File> {
    let mut directory = from.try_clone()?;
    for name in names {
        directory = open_directory(&directory, name)?;
    }
    Ok(directory)
}

/// Opens a directory.
pub(super) fn open_directory(parent: &File, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?.into())
}

/// Opens a file or directory. What is neither is refused, and never waited for.
pub(super) fn open(parent: &File, name: &str, flags: OFlags) -> io::Result<(File, Stat)> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(openat(parent, name, flags, FILE_MODE)?);
    let stat = fstat(&file)?;
    match kind(&stat) {
        FileType::RegularFile | FileType::Directory => Ok((file, stat)),
        _ => Err(Errno::PERM.into()),
    }
}

/// What stands at a name, itself.
pub(super) fn look(parent: &File, name: &str) -> io::Result<Stat> {
    Ok(statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// The same, or nothing if nothing is there.
pub(super) fn find(parent: &File, name: &str) -> io::Result<Option<Stat>> {
    match look(parent, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// How many directories lie between `directory` and `root`.
///
/// # Errors
///
/// `ENAMETOOLONG` if it is too deep, or not below the root at all.
pub(super) fn depth(directory: &File, root: &File) -> io::Result<usize> {
    let root = id(&fstat(root)?);
    let mut here = directory.try_clone()?;
    for depth in 0..=MAX_DEPTH {
        if id(&fstat(&here)?) == root {
            return Ok(depth);
        }
        here = openat(&here, "..", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?.into();
    }
    Err(Errno::NAMETOOLONG.into())
}

/// How many directories lie below each other in `directory`, itself counted.
pub(super) fn height(directory: &File, budget: usize) -> io::Result<usize> {
    let left = budget.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
    let mut highest = 0;
    each(directory, |name, stat| {
        if kind(stat) == FileType::Directory {
            highest = highest.max(height(&open_directory(directory, name)?, left)?);
        }
        Ok(())
    })?;
    Ok(highest + 1)
}

/// Counts everything below `directory`.
pub(super) fn count(directory: &File, book: &mut Book, budget: usize) -> io::Result<()> {
    let left = budget.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
    each(directory, |name, stat| match kind(stat) {
        FileType::Directory => {
            book.found(0);
            count(&open_directory(directory, name)?, book, left)
        }
        _ => {
            book.found(length(stat));
            Ok(())
        }
    })
}

/// Removes everything below `directory`, and writes down what is gone.
pub(super) fn clear(directory: &File, book: &parking_lot::Mutex<Book>, budget: usize) -> io::Result<()> {
    let left = budget.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
    each(directory, |name, stat| {
        if kind(stat) == FileType::Directory {
            clear(&open_directory(directory, name)?, book, left)?;
            unlinkat(directory, name, AtFlags::REMOVEDIR)?;
            book.lock().removed_directory();
        } else {
            unlinkat(directory, name, AtFlags::empty())?;
            book.lock().removed(stat);
        }
        Ok(())
    })
}

/// Does something with each entry. Names that are not text are passed over: none of ours are so.
pub(super) fn each(directory: &File, mut then: impl FnMut(&str, &Stat) -> io::Result<()>) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        match name.to_str() {
            Ok("." | "..") | Err(_) => {}
            Ok(name) => names.push(name.to_owned()),
        }
    }
    for name in names {
        // It may be gone by now.
        if let Some(stat) = find(directory, &name)? {
            then(&name, &stat)?;
        }
    }
    Ok(())
}
