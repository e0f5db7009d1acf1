//! The file with the first admin key's secret, for the command line on the same machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::files;

/// The file. It changes together with the key: before the key's row changes, the new secret
/// lies durably in a second file beside it, which then takes its place. A crash in between
/// leaves both, and the next start keeps the one that works.
pub(super) struct LocalKey {
    path: PathBuf,
    staged: PathBuf,
}

impl LocalKey {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), staged: path.with_extension("key.new") }
    }

    /// The secret in the file, if there is one.
    pub(super) fn secret(&self) -> Option<String> {
        read(&self.path)
    }

    /// Puts `secret` beside the file.
    pub(super) fn stage(&self, secret: &str) -> io::Result<()> {
        remove(&self.staged)?;
        files::write_durably(&self.staged, secret.as_bytes())?;
        self.sync()
    }

    /// Puts what was staged in the file's place.
    pub(super) fn replace(&self) -> io::Result<()> {
        fs::rename(&self.staged, &self.path)?;
        self.sync()
    }

    /// Forgets what was staged.
    pub(super) fn discard(&self) -> io::Result<()> {
        remove(&self.staged)
    }

    /// Removes the file: its key has ended.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove(&self.path)?;
        self.sync()
    }

    /// Ends what a crash interrupted. `works` says whether a secret is one of a live key.
    pub(super) fn settle(&self, works: impl Fn(&str) -> bool) -> io::Result<()> {
        match read(&self.staged) {
            Some(secret) if works(&secret) => self.replace(),
            _ => self.discard(),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.path.parent().map_or(Ok(()), files::sync_directory)
    }
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_crash_the_secret_that_works_is_kept() {
        for (works, kept) in [("old", "old"), ("new", "new")] {
            let dir = tempfile::tempdir().unwrap();
            let file = LocalKey::new(&dir.path().join("admin.key"));
            fs::write(&file.path, "old").unwrap();
            // The crash comes after this, before or after the row.
            file.stage("new").unwrap();
            file.settle(|secret| secret == works).unwrap();
            assert_eq!(file.secret().as_deref(), Some(kept));
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn what_was_staged_is_for_this_user_only() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let file = LocalKey::new(&dir.path().join("admin.key"));
        for secret in ["first", "second"] {
            file.stage(secret).unwrap();
            file.replace().unwrap();
            assert_eq!(file.secret().as_deref(), Some(secret));
            assert_eq!(fs::metadata(&file.path).unwrap().mode() & 0o777, 0o600);
        }
    }
}
