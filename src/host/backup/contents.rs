//! What a backup says that it has: its file `skillvisor-backup.json`, which comes last.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files;
use crate::model::{Code, Digest, Error};
use crate::store::{FILE_NAME, JOURNAL_NAMES};

use super::KEYS;

/// The file's name.
pub(super) const CONTENTS: &str = "skillvisor-backup.json";
/// The form that this version writes, and the newest that it reads.
const FORM: u32 = 1;
/// Longest such file: some hundred thousand names.
const MOST_BYTES: u64 = 256 << 20;

/// What is in a backup.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Contents {
    /// In which form it is.
    pub(super) form: u32,
    /// The version that made it.
    pub(super) version: String,
    /// How many steps the schema of its database has.
    pub(super) schema: usize,
    /// When.
    pub(super) created_at: String,
    /// Its files.
    pub(super) files: Vec<Entry>,
    /// Its directories, those above before those below.
    pub(super) directories: Vec<String>,
    /// SHA-256 of everything above.
    pub(super) digest: Option<Digest>,
}

/// One file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// Below the backup, and below the data directory.
    pub(super) path: String,
    /// How many bytes.
    pub(super) bytes: u64,
    /// SHA-256 of them.
    pub(super) sha256: Digest,
    /// When it was last written, in nanoseconds since the Unix epoch; for owners' files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) modified: Option<i64>,
}

impl Contents {
    /// Writes it durably into `dir`.
    pub(super) fn write(mut self, dir: &Path) -> Result<(), Error> {
        self.form = FORM;
        self.digest = Some(self.sum()?);
        let text = serde_json::to_vec_pretty(&self).map_err(Error::internal)?;
        files::write_durably(&dir.join(CONTENTS), &text).map_err(super::disk)
    }

    /// Reads that of the backup in `dir`, and makes sure that it leads nowhere else.
    ///
    /// # Errors
    ///
    /// `malformed` for what is no backup, or not a whole one; `digest_mismatch` for a damaged one;
    /// `unavailable` for one of a newer version.
    pub(super) fn read(dir: &Path) -> Result<Self, Error> {
        let none = || {
            let detail = format!("this is no whole backup: there is no {CONTENTS} in it, which comes last");
            Error::new(Code::Malformed, detail)
        };
        let mut text = Vec::new();
        File::open(dir.join(CONTENTS))
            .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut text))
            .map_err(|_| none())?;
        let damaged =
            |why: &str| Error::new(Code::DigestMismatch, format!("{CONTENTS} of the backup is damaged: {why}"));
        let contents: Self = serde_json::from_slice(&text).map_err(|error| damaged(&error.to_string()))?;
        if contents.form > FORM {
            let detail = "a newer version of skillvisor made this backup; restore it with that version";
            return Err(Error::new(Code::Unavailable, detail));
        }
        if contents.digest != Some(contents.sum()?) {
            return Err(damaged("it is not as it was written"));
        }
        let paths = contents.files.iter().map(|entry| &entry.path).chain(&contents.directories);
        match paths.into_iter().find(|path| !is_ours(path)) {
            Some(path) => Err(damaged(&format!("no backup has {path:?}"))),
            None => Ok(contents),
        }
    }

    fn sum(&self) -> Result<Digest, Error> {
        let Self { form, version, schema, created_at, files, directories, digest: _ } = self;
        let said = serde_json::to_vec(&(form, version, schema, created_at, files, directories));
        Ok(Digest::of(&said.map_err(Error::internal)?))
    }
}

/// Whether a path is one that a backup has: a known file, a component, or something of an owner.
fn is_ours(path: &str) -> bool {
    let parts: Vec<_> = Path::new(path).components().collect();
    let plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
    let text = parts.iter().collect::<PathBuf>();
    let first = parts.first().and_then(|part| part.as_os_str().to_str()).unwrap_or_default();
    let known = match parts.len() {
        1 => path == FILE_NAME || JOURNAL_NAMES.contains(&path) || KEYS.contains(&path) || path == "workspaces",
        _ => first == "workspaces" || (first == "blobs" && parts.len() == 2),
    };
    plain && known && text.as_os_str() == path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_elsewhere_are_none_of_a_backup() {
        let good = ["skillvisor.db", "skillvisor.journal-1", "blobs/00ff", "workspaces/a/b c/d", "secrets.key"];
        assert_eq!(good.map(is_ours), [true; 5]);
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "blobs/../x",
            "blobs",
            "blobs/a/b",
            "cache/x",
            "workspaces/a/../../x",
            "workspaces//a",
            "workspaces/./a",
            "lock",
        ] {
            assert!(!is_ours(bad), "{bad}");
        }
    }

    #[test]
    fn what_was_changed_is_damaged_and_what_is_missing_is_not_whole() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Contents::read(dir.path()).unwrap_err().code, Code::Malformed);
        let contents = Contents { schema: 3, ..Contents::default() };
        contents.write(dir.path()).unwrap();
        assert_eq!(Contents::read(dir.path()).unwrap().schema, 3);
        let file = dir.path().join(CONTENTS);
        let text = std::fs::read_to_string(&file).unwrap();
        for (from, to, code) in [
            ("\"schema\": 3", "\"schema\": 4", Code::DigestMismatch),
            ("\"form\": 1", "\"form\": 2", Code::Unavailable),
            ("}", "", Code::DigestMismatch),
        ] {
            std::fs::write(&file, text.replace(from, to)).unwrap();
            assert_eq!(Contents::read(dir.path()).unwrap_err().code, code, "{to}");
        }
    }
}
