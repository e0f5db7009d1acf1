//! Writing files so that a crash leaves the whole or nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Writes a new file that only this user can read, and waits until it is on the disk.
///
/// # Errors
///
/// As the system gives them; also if the file exists.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_private(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Creates a new file that only this user can read.
///
/// # Errors
///
/// As the system gives them; also if the file exists.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Takes a file away from everybody but this user, and makes it first if `create` says so.
///
/// # Errors
///
/// As the system gives them; a file that is not there and is not to be made is no error.
pub(crate) fn make_private(path: &Path, create: bool) -> io::Result<()> {
    let opened = OpenOptions::new().write(true).create(create).truncate(false).mode(0o600).open(path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mode = file.metadata()?.mode();
    if mode & 0o077 != 0 {
        file.set_permissions(std::fs::Permissions::from_mode(mode & 0o700))?;
    }
    Ok(())
}

/// Waits until what was renamed or removed in a directory is on the disk.
///
/// # Errors
///
/// As the system gives them.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes a directory, and those above it, that only this user can enter, and waits until
/// those that are new are on the disk: what is synced in them later must not go with them.
///
/// # Errors
///
/// As the system gives them.
pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    let is_new = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let new: Vec<_> = path.ancestors().take_while(is_new).collect();
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for directory in new {
        let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_directory(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// Why somebody else than this user could write into a directory, if so.
///
/// # Errors
///
/// As the system gives them.
pub(crate) fn foreign_writers(path: &Path) -> io::Result<Option<String>> {
    let metadata = std::fs::symlink_metadata(path)?;
    let user = rustix::process::geteuid().as_raw();
    let why = if !metadata.is_dir() {
        Some("it is not a directory".to_owned())
    } else if metadata.uid() != user {
        Some(format!("it belongs to user {}, not to {user}", metadata.uid()))
    } else if metadata.mode() & 0o022 != 0 {
        Some(format!("group or others may write it (mode {:o})", metadata.mode() & 0o777))
    } else {
        None
    };
    Ok(why)
}
