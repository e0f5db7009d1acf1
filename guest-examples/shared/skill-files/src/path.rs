//! Paths in the workspace. What a path may be is decided here before the host, which decides again.

use crate::Refusal;

/// Names that no skill of these touches: what tools keep credentials and history in.
const RESTRICTED: [&str; 6] = [".env", ".git", ".ssh", ".omniroute", ".codex", "secrets"];
/// Most bytes of a path.
const MAX_PATH: usize = 4096;

/// Whether a name is one that is left alone, in whatever case.
pub fn is_restricted(name: &str) -> bool {
    let name = name.to_lowercase();
    RESTRICTED.contains(&name.as_str())
}

/// A path below the workspace, without `.`, `..` and empty parts. Empty is the workspace itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePath(String);

impl FilePath {
    /// The path of a file.
    pub fn file(text: &str) -> Result<Self, Refusal> {
        let path = Self::folder(text)?;
        if path.0.is_empty() {
            let why =
                "the path must name something below the workspace, and not the workspace itself";
            return Err(Refusal::new("escapes-workspace", why));
        }
        Ok(path)
    }

    /// The path of a folder, which may be the workspace.
    pub fn folder(text: &str) -> Result<Self, Refusal> {
        if text.len() > MAX_PATH {
            let why = format!("the path has more than {MAX_PATH} bytes");
            return Err(Refusal::new("bad-path", why));
        }
        if text.chars().any(char::is_control) {
            return Err(Refusal::new("bad-path", "the path has a control character"));
        }
        let mut start = text.chars();
        let is_drive =
            start.next().is_some_and(|c| c.is_ascii_alphabetic()) && start.next() == Some(':');
        if text.starts_with(['/', '\\']) || is_drive {
            let why = "the path must be relative to the workspace";
            return Err(Refusal::new("absolute-path", why));
        }
        let mut parts = Vec::new();
        for part in text.split(['/', '\\']) {
            if is_restricted(part) {
                let why = format!("the path has a restricted part: `{part}`");
                return Err(Refusal::new("restricted-path", why));
            }
            match part {
                "" | "." => {}
                ".." => {
                    let why = "the path leads out of the workspace";
                    parts
                        .pop()
                        .ok_or_else(|| Refusal::new("escapes-workspace", why))?;
                }
                part => parts.push(part),
            }
        }
        Ok(Self(parts.join("/")))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What lies in this folder under a name.
    pub fn join(&self, name: &str) -> Self {
        if self.0.is_empty() {
            return Self(name.to_owned());
        }
        Self(format!("{}/{name}", self.0))
    }

    /// The folder that it lies in.
    pub fn parent(&self) -> Self {
        Self(
            self.0
                .rsplit_once('/')
                .map_or(String::new(), |(parent, _)| parent.to_owned()),
        )
    }

    /// Every folder above it, the highest first.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.0
            .match_indices('/')
            .filter_map(|(at, _)| self.0.get(..at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_workspace() {
        let file = |text: &str| {
            FilePath::file(text)
                .map(|path| path.0)
                .map_err(|no| no.code)
        };
        assert_eq!(file("a/b.txt").as_deref(), Ok("a/b.txt"));
        assert_eq!(file("./a//x/../b.txt").as_deref(), Ok("a/b.txt"));
        assert_eq!(file("a\\b.txt").as_deref(), Ok("a/b.txt"));
        assert_eq!(file("…/ü .txt").as_deref(), Ok("…/ü .txt"));
        for (bad, code) in [
            ("/etc/passwd", "absolute-path"),
            ("\\\\host\\share", "absolute-path"),
            ("C:\\x", "absolute-path"),
            ("../x", "escapes-workspace"),
            ("a/../../x", "escapes-workspace"),
            ("a\\..\\..\\x", "escapes-workspace"),
            ("", "escapes-workspace"),
            (".", "escapes-workspace"),
            ("a/..", "escapes-workspace"),
            (".env", "restricted-path"),
            ("a/.GIT/config", "restricted-path"),
            ("a/../.ssh/id", "restricted-path"),
            ("Secrets\\x", "restricted-path"),
            ("a/secrets/../b", "restricted-path"),
            ("a\0b", "bad-path"),
            ("a\nb", "bad-path"),
        ] {
            assert_eq!(file(bad), Err(code), "{bad:?}");
        }
        assert_eq!(file(&"a/".repeat(3000)), Err("bad-path"));
    }

    #[test]
    fn a_folder_may_be_the_workspace_and_knows_what_is_above_it() {
        let root = FilePath::folder("./").unwrap();
        assert_eq!((root.as_str(), root.join("a").as_str()), ("", "a"));
        let deep = FilePath::file("a/b/c").unwrap();
        assert_eq!(deep.folders().collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(deep.parent().join("d").as_str(), "a/b/d");
    }
}
