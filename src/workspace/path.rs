//! Paths below a directory, as names one after the other.

use std::io;

use rustix::io::Errno;

/// Longest path, and longest name in it, in bytes.
const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;
/// Directories below each other, of the whole workspace: a walk holds one open for each.
pub(super) const MAX_DEPTH: usize = 64;

/// A path that leads nowhere but down: plain names, none of them `.` or `..`.
///
/// `..` goes back in the text, before anything is looked up. Nothing is a link here, so
/// that it means the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelPath {
    names: Vec<String>,
    is_directory: bool,
}

impl RelPath {
    /// Reads a path as it was written.
    ///
    /// # Errors
    ///
    /// `EPERM` for one that leads up or starts at a root, `ENOENT` for none at all, `EINVAL` for
    /// control characters and backslashes, `ENAMETOOLONG`.
    pub fn parse(text: &str) -> io::Result<Self> {
        if text.is_empty() {
            return Err(Errno::NOENT.into());
        }
        if text.len() > MAX_PATH {
            return Err(Errno::NAMETOOLONG.into());
        }
        if text.starts_with('/') {
            return Err(Errno::PERM.into());
        }
        // A backslash is a separator to some of those who read the names.
        if text.chars().any(|c| c.is_control() || c == '\\') {
            return Err(Errno::INVAL.into());
        }
        let mut names: Vec<&str> = Vec::new();
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." => drop(names.pop().ok_or(Errno::PERM)?),
                name if name.len() > MAX_NAME => return Err(Errno::NAMETOOLONG.into()),
                name => names.push(name),
            }
        }
        if names.len() > MAX_DEPTH {
            return Err(Errno::NAMETOOLONG.into());
        }
        let last = text.rsplit('/').next();
        let is_directory = matches!(last, Some("" | "." | ".."));
        Ok(Self { names: names.into_iter().map(str::to_owned).collect(), is_directory })
    }

    /// The directory itself.
    pub fn root() -> Self {
        Self { names: Vec::new(), is_directory: true }
    }

    /// Whether it is the directory itself.
    pub fn is_root(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether it was written as that of a directory.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Its names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The names before the last, and the last.
    ///
    /// # Errors
    ///
    /// `EPERM` for the directory itself: it cannot be made, moved or removed.
    pub(super) fn split(&self) -> io::Result<(&[String], &str)> {
        let (last, before) = self.names.split_last().ok_or(Errno::PERM)?;
        Ok((before, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_down_is_taken_and_what_leads_up_is_not() {
        let names = |text: &str| RelPath::parse(text).unwrap().names().join("/");
        for (text, wanted) in [("a", "a"), ("./a//b/", "a/b"), ("a/../b", "b"), (".", ""), ("...", "..."), ("a/..", "")]
        {
            assert_eq!(names(text), wanted, "{text}");
        }
        for text in ["", "/", "/a", "..", "a/../..", "a/../../b", "./../a", "a\\b", "a\0b", "a\nb"] {
            assert!(RelPath::parse(text).is_err(), "{text:?}");
        }
        assert!(RelPath::parse(&"a".repeat(256)).is_err() && RelPath::parse(&"a/".repeat(65)).is_err());
    }

    #[test]
    fn a_slash_at_the_end_says_that_it_is_a_directory() {
        for (text, wanted) in [("a/", true), ("a", false), (".", true), ("a/.", true), ("a/b/..", true), ("a..", false)]
        {
            assert_eq!(RelPath::parse(text).unwrap().is_directory(), wanted, "{text}");
        }
    }
}
