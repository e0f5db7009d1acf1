//! What is in a directory, a page at a time.

use std::fs::File;
use std::io;

use rustix::fs::{FileType, Stat};

use super::{RelPath, at, book};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A link, or something else that an operator left. Nothing here follows or opens it.
    Other,
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name in the directory.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its bytes, for a file.
    pub size: u64,
    /// When it was last written, in milliseconds since the Unix epoch.
    pub modified_at: i64,
}

/// When it was last written, in milliseconds since the Unix epoch.
pub(super) fn modified_at(stat: &Stat) -> i64 {
    let milliseconds = i64::try_from(stat.st_mtime_nsec / 1_000_000).unwrap_or_default();
    stat.st_mtime.saturating_mul(1000).saturating_add(milliseconds)
}

/// A page of a directory, by name.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Whether there are more.
    pub more: bool,
    /// How many there are.
    pub total: u64,
}

impl super::Alone<'_> {
    /// Lists at most `limit` entries behind the name `after`.
    ///
    /// # Errors
    ///
    /// As the system gives them.
    pub fn list(&self, from: &File, path: &RelPath, after: Option<&str>, limit: usize) -> io::Result<Listing> {
        let directory = at::descend(from, path.names())?;
        let mut entries = Vec::new();
        at::each(&directory, |name, stat| {
            let kind = match at::kind(stat) {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Directory,
                _ => Kind::Other,
            };
            let size = if kind == Kind::File { book::length(stat) } else { 0 };
            entries.push(Entry { name: name.to_owned(), kind, size, modified_at: modified_at(stat) });
            Ok(())
        })?;
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let total = entries.len() as u64;
        let first = after.map_or(0, |after| entries.partition_point(|entry| entry.name.as_str() <= after));
        let more = entries.len() - first > limit;
        let entries = entries.into_iter().skip(first).take(limit).collect();
        Ok(Listing { entries, more, total })
    }
}
