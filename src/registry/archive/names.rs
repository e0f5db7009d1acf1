//! The names in an archive, and which of its files are the skill's.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;

use crate::model::{Code, Error, quotable, steers};

use super::list::Entry;
use super::malformed;

/// Longest name with its folders, in bytes, and longest part of one.
const MAX_NAME: usize = 1024;
const MAX_PART: usize = 255;
/// Most folders that a name leads through.
const MAX_DEPTH: usize = 64;
/// Where macOS keeps what it knows of files besides their content.
const ASIDE: &str = "__MACOSX/";

/// Refuses a name that is no plain path below the folder.
pub(super) fn require_plain(name: &str) -> Result<(), Error> {
    let path = name.strip_suffix('/').unwrap_or(name);
    let plain = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= MAX_PART;
    // A colon is a drive or a stream elsewhere.
    let odd = |c: char| matches!(c, '\\' | ':') || steers(c);
    let is_deep = path.split('/').count() > MAX_DEPTH;
    if name.len() > MAX_NAME || is_deep || name.contains(odd) || !path.split('/').all(plain) {
        return Err(malformed(format!("{:?} is no plain path below its folder", quotable(name))));
    }
    Ok(())
}

/// Refuses two names that are one on some disk: those of one spelling, whatever its case and its
/// Unicode form, and a file that others are below of.
pub(super) fn require_distinct(entries: &[Entry]) -> Result<(), Error> {
    let mut known = HashMap::new();
    for entry in entries {
        let folded = folded(entry.name.trim_end_matches('/'));
        if known.insert(folded, entry.is_folder()).is_some() {
            return Err(malformed(format!(
                "it has {:?} twice, or names that differ by case alone",
                quotable(&entry.name)
            )));
        }
    }
    for name in known.keys() {
        let above = name.match_indices('/').map(|(at, _)| &name[..at]);
        if above.into_iter().any(|folder| known.get(folder) == Some(&false)) {
            return Err(malformed(format!("a file is a folder too: {:?}", quotable(name))));
        }
    }
    Ok(())
}

fn folded(name: &str) -> String {
    name.nfkc().flat_map(char::to_lowercase).nfkc().collect()
}

/// Where the files of a skill are.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    /// Its `SKILL.md`.
    pub(super) skill_md: &'a Entry,
    components: Vec<&'a Entry>,
}

impl<'a> Layout<'a> {
    /// Finds the one `SKILL.md`, at the top or in the one folder there, and what lies beside it.
    pub(super) fn of(entries: &'a [Entry]) -> Result<Self, Error> {
        let files = || entries.iter().filter(|entry| !entry.is_folder() && !entry.name.starts_with(ASIDE));
        let at_top = files().find(|entry| entry.name == "SKILL.md");
        let skill_md = at_top.or_else(|| files().find(|entry| is_in_one_folder(entry)));
        let skill_md = skill_md.ok_or_else(|| {
            Error::new(
                Code::InvalidManifest,
                "there is no SKILL.md, neither at the top of the zip nor in the one folder there",
            )
        })?;
        let folder = skill_md.name.strip_suffix("SKILL.md").unwrap_or_default();
        if let Some(other) = files().find(|entry| !entry.name.starts_with(folder)) {
            let detail =
                format!("the zip has more than one folder: {:?} is outside of {folder:?}", quotable(&other.name));
            return Err(Error::new(Code::InvalidManifest, detail));
        }
        Ok(Self::beside(skill_md, files()))
    }

    /// Finds the folder with a `SKILL.md` that is named `skill`, or the only one.
    pub(super) fn within(entries: &'a [Entry], skill: Option<&str>) -> Result<Self, Error> {
        let files = || entries.iter().filter(|entry| !entry.is_folder() && !entry.name.starts_with(ASIDE));
        let is_it = |entry: &&Entry| {
            let folder = entry.name.strip_suffix("SKILL.md").and_then(|folder| folder.strip_suffix('/'));
            folder.is_some_and(|folder| skill.is_none_or(|skill| folder.rsplit('/').next() == Some(skill)))
        };
        let found: Vec<_> = files().filter(is_it).collect();
        match found[..] {
            [one] => Ok(Self::beside(one, files())),
            [] => Err(Error::at(Code::NotFound, "/skill", "the repository has no such folder with a SKILL.md")),
            _ => {
                let detail = "the repository has several such folders with a SKILL.md; name one of them as `skill`";
                Err(Error::at(Code::InvalidManifest, "/skill", detail))
            }
        }
    }

    fn beside(skill_md: &'a Entry, files: impl Iterator<Item = &'a Entry>) -> Self {
        let folder = skill_md.name.strip_suffix("SKILL.md").unwrap_or_default();
        let is_component = |name: &str| {
            let name = name.strip_prefix(folder).unwrap_or("/");
            name.ends_with(".wasm") && !name.contains('/')
        };
        Self { skill_md, components: files.filter(|entry| is_component(&entry.name)).collect() }
    }

    /// The one component.
    pub(super) fn component(&self) -> Result<Option<&'a Entry>, Error> {
        match self.components[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            _ => {
                Err(Error::new(Code::InvalidComponent, "there are several .wasm files beside the SKILL.md; leave one"))
            }
        }
    }
}

/// Whether it is the `SKILL.md` of a folder at the top.
fn is_in_one_folder(entry: &Entry) -> bool {
    entry.name.strip_suffix("/SKILL.md").is_some_and(|folder| !folder.contains('/'))
}
