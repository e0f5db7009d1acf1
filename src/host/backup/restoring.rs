//! Bringing a backup back into an empty data directory.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::access::Access;
use crate::files;
use crate::host::directory::lock;
use crate::host::{ADMIN_KEY_FILE, LOCK_FILE, SERVER_FILE};
use crate::model::{Clock, Code, Error};
use crate::secrets::KEY_FILE;
use crate::store::{Store, examine};
use crate::telemetry::Telemetry;

use super::contents::{Contents, Entry};
use super::copying::{copy, set_modified, sync_all};
use super::{Progress, disk};

/// Is in the directory as long as what is there is not whole: no host starts on it.
const UNFINISHED: &str = "restore.unfinished";

/// A backup that was brought back.
#[derive(Clone, Debug)]
pub struct Restored {
    /// How many files, and how many bytes they have.
    pub files: u64,
    /// As it is there.
    pub bytes: u64,
    /// When the backup was made, and by which version.
    pub created_at: String,
    /// As it is there.
    pub version: String,
    /// Whether a new admin key was made for the command line, because the backup has none.
    pub new_admin_key: bool,
    /// Whether it has secrets whose key is not there.
    pub lacks_secrets_key: bool,
}

/// Brings the backup in `from` back into `dir`, which must be empty or not there yet. Every file is
/// compared with what the backup says of it, and the database looked through, before a host
/// can start on the directory; what a crash leaves is taken away by the next try.
///
/// # Errors
///
/// `malformed` for what is no whole backup, `digest_mismatch` for a damaged one, `conflict` if the directory is not
/// empty, `unavailable` if it is in use or a newer version wrote the backup; `storage_full`.
pub async fn restore(
    from: &Path,
    dir: &Path,
    progress: impl FnMut(Progress) + Send + 'static,
) -> Result<Restored, Error> {
    let (from, dir) = (from.to_owned(), std::path::absolute(dir).map_err(Error::internal)?);
    let place = dir.clone();
    let copied = tokio::task::spawn_blocking(move || put_back(&from, &place, progress));
    let copied = copied.await.map_err(Error::internal)?;
    let opened = match copied {
        Ok((contents, lock)) => open(&dir).await.map(|opened| (contents, lock, opened)),
        Err(error) => Err(error),
    };
    // Nothing of what is refused stays.
    let (contents, _lock, (new_admin_key, has_secrets)) = opened.inspect_err(|_| take_away(&dir))?;
    finish(&dir).map_err(disk)?;
    Ok(Restored {
        files: contents.files.len() as u64,
        bytes: contents.files.iter().map(|entry| entry.bytes).sum(),
        lacks_secrets_key: has_secrets && !dir.join(KEY_FILE).exists(),
        created_at: contents.created_at,
        version: contents.version,
        new_admin_key,
    })
}

/// Refuses a directory in which a restore did not come to its end.
pub(in crate::host) fn require_whole(dir: &Path) -> Result<(), Error> {
    if !dir.join(UNFINISHED).exists() {
        return Ok(());
    }
    let detail = "the data directory is not whole: a restore into it did not come to its end; restore again";
    Err(Error { retry_after_s: None, ..Error::new(Code::Unavailable, detail) })
}

fn put_back(from: &Path, dir: &Path, mut progress: impl FnMut(Progress)) -> Result<(Contents, std::fs::File), Error> {
    // Before anything is written.
    let contents = Contents::read(from)?;
    let lock = lock(dir)?;
    begin(dir)?;
    for directory in contents.directories.iter().map(String::as_str).chain(["blobs"]) {
        files::create_private_directory(&dir.join(directory)).map_err(disk)?;
    }
    for entry in &contents.files {
        put_file(from, dir, entry, &mut progress)?;
    }
    let (schema, needed) = examine(dir)?;
    let has: HashSet<_> = contents.files.iter().map(|entry| entry.path.as_str()).collect();
    let lacks = |digest: &str| !has.contains(format!("blobs/{digest}").as_str());
    if let Some(component) = needed.iter().find(|component| lacks(&component.digest.hex())) {
        let detail = format!("the backup is not whole: the component {} is not in it", component.digest);
        return Err(Error::new(Code::Malformed, detail));
    }
    if schema != contents.schema {
        return Err(Error::new(Code::DigestMismatch, "the backup is damaged: its database is of another version"));
    }
    sync_all(dir)?;
    Ok((contents, lock))
}

/// Makes sure that the directory is empty, and says durably that it is not whole from now on.
fn begin(dir: &Path) -> Result<(), Error> {
    let is_again = dir.join(UNFINISHED).exists();
    for entry in std::fs::read_dir(dir).map_err(Error::internal)? {
        let entry = entry.map_err(Error::internal)?;
        let name = entry.file_name();
        if [LOCK_FILE, UNFINISHED].iter().any(|own| name == *own) {
            continue;
        }
        if !is_again {
            let detail =
                "the data directory is not empty; name another one with --data-dir, or move away what is in it";
            return Err(Error::new(Code::Conflict, detail));
        }
        // What the last try left; there was nothing before it.
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let path = entry.path();
        let removed = if is_directory { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        removed.map_err(Error::internal)?;
    }
    if !is_again {
        files::write_durably(&dir.join(UNFINISHED), b"").map_err(disk)?;
    }
    files::sync_directory(dir).map_err(disk)
}

/// Takes away what a try put there, if it did.
fn take_away(dir: &Path) {
    if dir.join(UNFINISHED).exists() && begin(dir).is_ok() {
        let _ = std::fs::remove_file(dir.join(UNFINISHED));
    }
}

fn put_file(from: &Path, dir: &Path, entry: &Entry, progress: &mut dyn FnMut(Progress)) -> Result<(), Error> {
    let (source, target) = (from.join(&entry.path), dir.join(&entry.path));
    let missing = || Error::new(Code::Malformed, format!("the backup is not whole: {} is missing", entry.path));
    let found = copy(&source, &target, progress)?.ok_or_else(missing)?;
    if found != (entry.bytes, entry.sha256) {
        let detail = format!("the backup is damaged: {} is not as it was written", entry.path);
        return Err(Error::new(Code::DigestMismatch, detail));
    }
    if let Some(modified) = entry.modified {
        set_modified(&target, modified).map_err(disk)?;
    }
    Ok(())
}

/// Opens what is there as a host does, so that it can; makes a key for the command line, if there is none.
/// Says whether it did, and whether there are secrets.
async fn open(dir: &Path) -> Result<(bool, bool), Error> {
    let mut has_secrets = false;
    let store = Store::open_if(dir, Telemetry::new(), |sealed| {
        has_secrets = !sealed.is_empty();
        Ok(())
    })?;
    let local = dir.join(ADMIN_KEY_FILE);
    let has_key = local.exists();
    let made = async {
        let access = Arc::new(Access::open(store.clone(), Clock::System, &local).await?);
        if has_key { Ok(()) } else { access.make_local_admin("admin after a restore").await }
    };
    let made = made.await;
    store.close().await;
    made.map(|()| (!has_key, has_secrets))
}

/// Lets hosts start on the directory.
fn finish(dir: &Path) -> io::Result<()> {
    sync_all(dir).map_err(io::Error::other)?;
    let _ = std::fs::remove_file(dir.join(SERVER_FILE));
    std::fs::remove_file(dir.join(UNFINISHED))?;
    files::sync_directory(dir)
}
