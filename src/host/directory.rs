//! The data directory: one host's at a time, and nobody else's to write.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::files;
use crate::model::{Code, Error};

use super::SERVER_FILE;

/// The file that is locked while a host uses the directory.
pub const LOCK_FILE: &str = "lock";

/// Why [`Host::open`](super::Host::open) does not use a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryProblem {
    /// Another host uses it.
    Locked,
    /// It cannot be made or is not safe: it takes another one, or other rights.
    Unusable,
}

impl fmt::Display for DirectoryProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locked => "the directory is locked",
            Self::Unusable => "the directory is of no use",
        })
    }
}

impl std::error::Error for DirectoryProblem {}

/// Whether a host was not opened because of its directory.
pub fn directory_problem(error: &Error) -> Option<DirectoryProblem> {
    error.source.as_deref().and_then(|source| source.downcast_ref()).copied()
}

fn problem(problem: DirectoryProblem, detail: impl Into<String>) -> Error {
    let error = Error { retry_after_s: None, ..Error::new(Code::Unavailable, detail) };
    Error { source: Some(Box::new(problem)), ..error }
}

/// Locks the data directory for this process, after making sure that it is ours alone.
pub(super) fn lock(dir: &Path) -> Result<File, Error> {
    files::create_private_directory(dir).map_err(|error| not_made(&error))?;
    require_safe(dir)?;
    let path = dir.join(LOCK_FILE);
    // Who can open it can lock it.
    files::make_private(&path, true).map_err(|error| not_made(&error))?;
    let file = File::options().write(true).open(path).map_err(Error::internal)?;
    let locked = "the data directory is locked: another skillvisor uses it";
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| problem(DirectoryProblem::Locked, locked))?;
    // Left by a dead host: somebody else may have its port by now, and would be sent keys.
    match std::fs::remove_file(dir.join(SERVER_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::internal(error)),
        _ => Ok(file),
    }
}

/// Makes the directories for unfinished files, for components and for owners' files.
pub(super) fn own_directories(dir: &Path) -> Result<[PathBuf; 3], Error> {
    let own = ["tmp", "blobs", "workspaces"].map(|name| dir.join(name));
    // Whatever lies there is unfinished work of a host that is gone.
    let _ = std::fs::remove_dir_all(&own[0]);
    for directory in &own {
        files::create_private_directory(directory).map_err(|error| not_made(&error))?;
        require_safe(directory)?;
    }
    Ok(own)
}

/// Refuses a directory that somebody else can write, or put another one in the place of.
fn require_safe(directory: &Path) -> Result<(), Error> {
    let Some(why) = files::foreign_writers(directory).map_err(Error::internal)? else { return Ok(()) };
    // By its name alone: where it lies is nobody's business but the operator's, who knows.
    let name = directory.file_name().unwrap_or_default().display();
    Err(problem(DirectoryProblem::Unusable, format!("the data directory is not safe to use: `{name}`: {why}")))
}

/// What is said of a directory that the system does not let us have.
fn not_made(error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::StorageFull {
        return Error::new(Code::StorageFull, "the disk of the data directory is full");
    }
    let why = match error.kind() {
        // So the system says that something else has the name.
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => "is not a directory".to_owned(),
        kind => format!("cannot be made or written: {kind}"),
    };
    problem(DirectoryProblem::Unusable, format!("the data directory {why}"))
}
