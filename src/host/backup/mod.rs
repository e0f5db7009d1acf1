//! Copies of a data directory: made while a host uses it or while none does, and brought back
//! into an empty one.
//!
//! The journal is copied first, then the database as it is at one moment after that: what was
//! answered before is in one or the other, since the journal gives up only what the database has. The
//! components that this database needs are copied beside it; if one was deleted meanwhile, with its
//! row, the next moment is taken. Owners' files come last, each as it is then. What says what is in
//! the backup is written when all of it is on the disk.

mod contents;
mod copying;
mod restoring;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::files;
use crate::model::{Clock, Code, Digest, Error};
use crate::secrets::KEY_FILE;
use crate::store::{AUDIT_KEY_FILE, FILE_NAME, JOURNAL_NAMES, Snapshot};

use self::contents::{Contents, Entry};
use self::copying::{Tree, Unfinished, copy};

pub(super) use self::restoring::require_whole;
pub use self::restoring::{Restored, restore};

use super::ADMIN_KEY_FILE;

/// Keys in the data directory, which a backup has only if it is asked to.
pub const KEYS: [&str; 4] = [KEY_FILE, AUDIT_KEY_FILE, ADMIN_KEY_FILE, "mcp.key"];
/// How often another moment is taken because components were deleted.
const TRIES: usize = 20;

/// What to tell who watches.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// So many bytes more are to be copied.
    Found(u64),
    /// So many bytes more were.
    Copied(u64),
}

/// A backup that was made.
#[derive(Clone, Debug)]
pub struct BackedUp {
    /// Where.
    pub path: PathBuf,
    /// How many files, and how many bytes they have.
    pub files: u64,
    /// As it is there.
    pub bytes: u64,
    /// How many steps the schema of its database has.
    pub schema: usize,
    /// When it was begun.
    pub created_at: String,
    /// Keys that lie in the data directory and not in the backup.
    pub left_out: Vec<&'static str>,
    /// Links and the like among owners' files, which are no files.
    pub skipped: u64,
}

/// Copies the data directory `dir` to `to`, a new directory; with its keys, if `with_keys` says so.
///
/// # Errors
///
/// `not_found` where there is no data directory; `conflict` if something is at `to`, or it lies in the data
/// directory; `storage_full`; `unavailable` if a newer version wrote the data.
pub fn back_up(dir: &Path, to: &Path, with_keys: bool, progress: &mut dyn FnMut(Progress)) -> Result<BackedUp, Error> {
    let dir = dir.canonicalize().map_err(|_| Error::new(Code::NotFound, "no such data directory"))?;
    let to = free(&dir, to)?;
    let unfinished = Unfinished::beside(&to)?;
    let mut contents = Contents {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: Clock::rfc3339(Clock::System.now_ms()),
        ..Contents::default()
    };
    let place = unfinished.path();
    for name in JOURNAL_NAMES {
        plain(&dir, place, name, (&mut contents, progress))?;
    }
    contents.schema = database((&dir, place), &mut contents, progress)?;
    let mut tree = Tree { from: &dir, to: place, contents: &mut contents, skipped: 0 };
    if dir.join("workspaces").exists() {
        tree.copy(Path::new("workspaces"), progress)?;
    }
    let skipped = tree.skipped;
    let keys = KEYS.into_iter().filter(|name| dir.join(name).exists());
    let mut left_out = Vec::new();
    for name in keys {
        if with_keys {
            plain(&dir, place, name, (&mut contents, progress))?;
        } else {
            left_out.push(name);
        }
    }
    let done = BackedUp {
        path: to.clone(),
        files: contents.files.len() as u64,
        bytes: contents.files.iter().map(|entry| entry.bytes).sum(),
        schema: contents.schema,
        created_at: contents.created_at.clone(),
        left_out,
        skipped,
    };
    // What it says must not be on the disk before it is true.
    copying::sync_all(place)?;
    contents.write(place)?;
    unfinished.finish(&to)?;
    Ok(done)
}

/// Where the backup will be, if that is free.
fn free(dir: &Path, to: &Path) -> Result<PathBuf, Error> {
    let taken = |why: &str| Error::new(Code::Conflict, format!("the backup cannot be put there: {why}"));
    let to = std::path::absolute(to).map_err(Error::internal)?;
    let name = to.file_name().ok_or_else(|| taken("it has no name"))?.to_owned();
    let parent = to.parent().unwrap_or(Path::new("/"));
    let parent = parent.canonicalize().map_err(|error| taken(&format!("{}: {error}", parent.display())))?;
    if parent.starts_with(dir) {
        return Err(taken("it would lie in the data directory"));
    }
    let to = parent.join(name);
    // A directory with nothing in it gives its place up when the backup gets its name.
    let is_free = match std::fs::read_dir(&to) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if is_free { Ok(to) } else { Err(taken("something is there already; name another place")) }
}

/// Copies one file of the data directory, if it is there.
fn plain(
    dir: &Path,
    to: &Path,
    name: &str,
    (contents, progress): (&mut Contents, &mut dyn FnMut(Progress)),
) -> Result<(), Error> {
    if let Some((bytes, sha256)) = copy(&dir.join(name), &to.join(name), progress)? {
        contents.files.push(Entry { path: name.to_owned(), bytes, sha256, modified: None });
    }
    Ok(())
}

/// Copies the database as it is at one moment, and the components that it needs; gives its schema.
fn database(
    (dir, to): (&Path, &Path),
    contents: &mut Contents,
    progress: &mut dyn FnMut(Progress),
) -> Result<usize, Error> {
    files::create_private_directory(&to.join("blobs")).map_err(disk)?;
    let mut copied = HashSet::new();
    for _ in 0..TRIES {
        let snapshot = Snapshot::take(dir)?;
        let Some(needed) = components(&snapshot, (dir, to), (&mut copied, contents), progress)? else { continue };
        contents.files.retain(|entry| entry.path.strip_prefix("blobs/").is_none_or(|name| needed.contains(name)));
        for name in copied.iter().filter(|name| !needed.contains(*name)) {
            std::fs::remove_file(to.join("blobs").join(name)).map_err(disk)?;
        }
        let file = to.join(FILE_NAME);
        progress(Progress::Found(dir.join(FILE_NAME).metadata().map_or(0, |metadata| metadata.len())));
        snapshot.copy(&file, |bytes| progress(Progress::Copied(bytes)))?;
        let (bytes, sha256) = copying::sum(&file)?;
        contents.files.push(Entry { path: FILE_NAME.to_owned(), bytes, sha256, modified: None });
        return Ok(snapshot.schema);
    }
    let detail = "skills are deleted all the time, so that no moment could be copied; try again later";
    Err(Error::new(Code::Unavailable, detail).retry_after(5))
}

/// Copies the components that a moment needs; nothing if one of them is gone by now.
fn components(
    snapshot: &Snapshot,
    (dir, to): (&Path, &Path),
    (copied, contents): (&mut HashSet<String>, &mut Contents),
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<HashSet<String>>, Error> {
    let mut needed = HashSet::new();
    for component in snapshot.components()? {
        let name = component.digest.hex();
        if !copied.contains(&name) {
            let path = format!("blobs/{name}");
            let Some((bytes, sha256)) = copy(&dir.join(&path), &to.join(&path), progress)? else { return Ok(None) };
            require_sound(component.digest, sha256)?;
            contents.files.push(Entry { path, bytes, sha256, modified: None });
            copied.insert(name.clone());
        }
        needed.insert(name);
    }
    Ok(Some(needed))
}

fn require_sound(wanted: Digest, found: Digest) -> Result<(), Error> {
    if wanted == found {
        return Ok(());
    }
    let detail = format!("the component {wanted} is damaged in the data directory; push its skill again, or delete it");
    Err(Error::new(Code::DigestMismatch, detail))
}

/// A failure of the disk that is written.
fn disk(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::new(Code::StorageFull, "the disk that is written is full")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            let detail = format!("the place that is written does not take it: {error}");
            Error { source: Some(error.into()), ..Error::new(Code::Unavailable, detail) }
        }
        _ => Error::internal(error),
    }
}
