//! Writing files so that a crash leaves the whole or nothing.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// The bit of a directory's mode that leaves renaming and removing to each file's owner.
const STICKY: u32 = 0o1000;

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
        file.set_permissions(Permissions::from_mode(mode & 0o700))?;
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

/// Why somebody else than this user could write into a directory, or put another one in its
/// place, if so: also what lies above it counts.
///
/// # Errors
///
/// As the system gives them.
pub(crate) fn foreign_writers(path: &Path) -> io::Result<Option<String>> {
    let user = rustix::process::geteuid().as_raw();
    if let Some(why) = not_alone(&std::fs::symlink_metadata(path)?, user) {
        return Ok(Some(why));
    }
    for above in path.canonicalize()?.ancestors().skip(1) {
        if let Some(why) = movable_by_others(&std::fs::symlink_metadata(above)?, user) {
            return Ok(Some(format!("{}, which is above it, is open to others: {why}", above.display())));
        }
    }
    Ok(None)
}

/// Opens a file in a directory that was opened before, whatever lies at its path by now. The
/// file must be this user's alone to write, and no link to another place.
///
/// # Errors
///
/// As the system gives them; `PermissionDenied` if somebody else could have written the file.
pub(crate) fn open_own(directory: &File, name: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = File::from(rustix::fs::openat(directory, name, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0;
    if own && metadata.is_file() { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

fn not_alone(metadata: &Metadata, user: u32) -> Option<String> {
    if !metadata.is_dir() {
        Some("it is not a directory".to_owned())
    } else if metadata.uid() != user {
        Some(format!("it belongs to user {}, not to {user}", metadata.uid()))
    } else {
        writable(metadata, 0o022)
    }
}

/// Why somebody else could rename what lies in this directory. In a sticky one, such as
/// `/tmp`, only a file's owner can. Nor is the group a stranger that has its user's number:
/// many systems give every user one, and let it write what the user makes.
fn movable_by_others(metadata: &Metadata, user: u32) -> Option<String> {
    if metadata.uid() != 0 && metadata.uid() != user {
        return Some(format!("it belongs to user {}", metadata.uid()));
    }
    let others = if metadata.gid() == user { 0o002 } else { 0o022 };
    if metadata.mode() & STICKY == 0 { writable(metadata, others) } else { None }
}

fn writable(metadata: &Metadata, by: u32) -> Option<String> {
    let mode = metadata.mode() & 0o7777;
    (mode & by != 0).then(|| format!("group or others may write it (mode {mode:o})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What keeps others from `outer/inner`, where `outer` has this mode.
    fn under(mode: u32) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let outer = dir.path().join("outer");
        create_private_directory(&outer.join("inner")).unwrap();
        std::fs::set_permissions(&outer, Permissions::from_mode(mode)).unwrap();
        foreign_writers(&outer.join("inner")).unwrap()
    }

    #[test]
    fn who_can_rename_a_directory_above_can_put_another_in_its_place() {
        assert!(under(0o777).unwrap().contains("(mode 777)"));
        assert!(under(0o702).is_some());
        assert_eq!(under(0o1777), None);
        assert_eq!(under(0o755), None);
    }

    #[test]
    fn a_directory_above_that_is_another_users_is_refused_whatever_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let metadata = std::fs::metadata(dir.path()).unwrap();
        assert_eq!(movable_by_others(&metadata, metadata.uid()), None);
        // What its owner is to a user who is not: root alone is trusted with what is above.
        let root = metadata.uid() == 0;
        assert_eq!(movable_by_others(&metadata, 4_000_000).is_none(), root);
        if root {
            std::os::unix::fs::chown(dir.path(), Some(4_000_000), None).unwrap();
            let inner = dir.path().join("inner");
            create_private_directory(&inner).unwrap();
            assert!(foreign_writers(&inner).unwrap().unwrap().contains("belongs to user 4000000"));
        }
    }

    #[test]
    fn a_file_is_opened_in_the_directory_that_was_opened_and_only_if_nobody_else_wrote_it() {
        let dir = tempfile::tempdir().unwrap();
        let [place, other] = ["place", "other"].map(|name| dir.path().join(name));
        for (directory, text) in [(&place, "ours"), (&other, "theirs")] {
            create_private_directory(directory).unwrap();
            write_durably(&directory.join("code"), text.as_bytes()).unwrap();
        }
        let opened = File::open(&place).unwrap();
        std::fs::rename(&place, dir.path().join("away")).unwrap();
        std::fs::rename(&other, &place).unwrap();
        let code = open_own(&opened, Path::new("code")).unwrap();
        assert_eq!(io::read_to_string(&code).unwrap(), "ours");
        std::os::unix::fs::symlink("code", dir.path().join("away/link")).unwrap();
        assert!(open_own(&opened, Path::new("link")).is_err());
        code.set_permissions(Permissions::from_mode(0o620)).unwrap();
        let refused = open_own(&opened, Path::new("code")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
