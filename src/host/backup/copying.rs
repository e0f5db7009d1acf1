//! Copying files while their bytes are summed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::files;
use crate::model::{Code, Digest, Error};

use super::contents::{Contents, Entry};
use super::{Progress, disk};

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;
/// Deepest level of an owner's directory.
const DEEPEST: usize = 512;

/// Copies one file, as it is now, into a new one for this user alone. Nothing where it is gone.
pub(super) fn copy(from: &Path, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Option<(u64, Digest)>, Error> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let mut source = match OpenOptions::new().read(true).custom_flags(flags).open(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::internal)?,
    };
    let metadata = source.metadata().map_err(Error::internal)?;
    if !metadata.is_file() {
        return Ok(None);
    }
    progress(Progress::Found(metadata.len()));
    let mut target = files::create_private(to).map_err(disk)?;
    let (mut hash, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        let count = source.read(&mut chunk).map_err(Error::internal)?;
        let read = &chunk[..count];
        if count == 0 {
            return Ok(Some((bytes, Digest::from_bytes(hash.finalize().into()))));
        }
        hash.update(read);
        target.write_all(read).map_err(disk)?;
        bytes += count as u64;
        progress(Progress::Copied(count as u64));
    }
}

/// An owner's files, from one directory to another.
pub(super) struct Tree<'a> {
    /// The data directory, and the backup.
    pub(super) from: &'a Path,
    pub(super) to: &'a Path,
    pub(super) contents: &'a mut Contents,
    /// What is neither a file nor a directory: an operator's links.
    pub(super) skipped: u64,
}

impl Tree<'_> {
    /// Copies what is below `path`, a directory in both.
    pub(super) fn copy(&mut self, path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<(), Error> {
        if path.components().count() > DEEPEST {
            return Err(Error::new(Code::Unavailable, format!("an owner's directories are more than {DEEPEST} deep")));
        }
        let name = name_of(path)?;
        files::create_private_directory(&self.to.join(path)).map_err(disk)?;
        self.contents.directories.push(name);
        let entries = match std::fs::read_dir(self.from.join(path)) {
            // Its owner removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(Error::internal)?,
        };
        for entry in entries {
            let entry = entry.map_err(Error::internal)?;
            let below = path.join(entry.file_name());
            let kind = entry.file_type().map_err(Error::internal)?;
            if kind.is_dir() {
                self.copy(&below, progress)?;
            } else if kind.is_file() {
                self.file(&below, progress)?;
            } else {
                self.skipped += 1;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<(), Error> {
        let (from, to) = (self.from.join(path), self.to.join(path));
        let modified = std::fs::symlink_metadata(&from)
            .ok()
            .map(|metadata| metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()));
        if let Some((bytes, sha256)) = copy(&from, &to, progress)? {
            self.contents.files.push(Entry { path: name_of(path)?, bytes, sha256, modified });
        }
        Ok(())
    }
}

fn name_of(path: &Path) -> Result<String, Error> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let detail = format!("an owner's file has a name that is not UTF-8; rename it: {}", path.display());
        Error::new(Code::Unavailable, detail)
    })
}

/// Gives a file the time at which its like was last written.
pub(super) fn set_modified(path: &Path, nanoseconds: i64) -> io::Result<()> {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    let time = if nanoseconds < 0 { SystemTime::UNIX_EPOCH - distance } else { SystemTime::UNIX_EPOCH + distance };
    OpenOptions::new().write(true).open(path)?.set_modified(time)
}

/// Waits until everything below a directory is on the disk.
pub(super) fn sync_all(directory: &Path) -> Result<(), Error> {
    let directory = File::open(directory).map_err(Error::internal)?;
    rustix::fs::syncfs(directory).map_err(|error| disk(error.into()))
}

/// A directory that goes with all in it, unless it is kept.
pub(super) struct Unfinished(Option<PathBuf>);

impl Unfinished {
    /// Makes it beside `path`.
    pub(super) fn beside(path: &Path) -> Result<Self, Error> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("backup");
        let unfinished = path.with_file_name(format!(".{name}.{}.unfinished", uuid::Uuid::now_v7().simple()));
        files::create_private_directory(&unfinished).map_err(disk)?;
        Ok(Self(Some(unfinished)))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new(""))
    }

    /// Gives it its name, durably.
    pub(super) fn finish(mut self, name: &Path) -> Result<(), Error> {
        sync_all(self.path())?;
        std::fs::rename(self.path(), name).map_err(disk)?;
        self.0 = None;
        files::sync_directory(name.parent().unwrap_or(Path::new("/"))).map_err(disk)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// The length and the digest of a file.
pub(super) fn sum(path: &Path) -> Result<(u64, Digest), Error> {
    let mut file = File::open(path).map_err(Error::internal)?;
    let (mut hash, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        let count = file.read(&mut chunk).map_err(Error::internal)?;
        if count == 0 {
            return Ok((bytes, Digest::from_bytes(hash.finalize().into())));
        }
        hash.update(&chunk[..count]);
        bytes += count as u64;
    }
}
