//! Where a skill of the catalogue comes from.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::model::{Code, Error, MAX_SKILL_MD_BYTES, SkillName};

/// Largest component of an operator's folder, in bytes: an upload may be as large by default.
const MAX_COMPONENT: u64 = 64 << 20;

/// A skill folder.
#[derive(Debug)]
pub(super) enum Folder {
    /// In the program.
    Builtin {
        /// The text.
        skill_md: &'static str,
        /// The bytes.
        component: &'static [u8],
    },
    /// In the operator's directory.
    Own(PathBuf),
}

impl Folder {
    /// What is in it.
    ///
    /// # Errors
    ///
    /// `invalid_manifest` or `invalid_component` where a file is missing, too large or cannot be read.
    pub(super) fn read(self) -> Result<(String, Bytes), Error> {
        let path = match self {
            Self::Builtin { skill_md, component } => {
                return Ok((skill_md.to_owned(), Bytes::from_static(component)));
            }
            Self::Own(path) => path,
        };
        let skill_md = read(&path.join("SKILL.md"), MAX_SKILL_MD_BYTES as u64)
            .map_err(|why| Error::new(Code::InvalidManifest, format!("its SKILL.md {why}")))?;
        let skill_md =
            String::from_utf8(skill_md).map_err(|_| Error::new(Code::InvalidManifest, "its SKILL.md is not UTF-8"))?;
        let component = component(&path).and_then(|file| read(&file, MAX_COMPONENT));
        let component = component.map_err(|why| Error::new(Code::InvalidComponent, format!("its component {why}")))?;
        Ok((skill_md, component.into()))
    }
}

/// The folders below `dir` whose names can be a skill's; others are logged.
///
/// # Errors
///
/// `unavailable` if it cannot be listed.
pub(super) fn list(dir: &Path) -> Result<Vec<(SkillName, Folder)>, Error> {
    let unreadable = |error: std::io::Error| {
        Error::new(Code::Unavailable, format!("the directory of catalogue.dir cannot be listed: {}", error.kind()))
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if !entry.path().is_dir() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.parse::<SkillName>() {
            Ok(name) => found.push((name, Folder::Own(entry.path()))),
            Err(_) if name.starts_with('.') => {}
            Err(error) => tracing::error!(
                catalogue.folder = name,
                "A folder of catalogue.dir is left out: its name is no skill's: {error}"
            ),
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

/// The one `.wasm` file in a folder.
fn component(path: &Path) -> Result<PathBuf, String> {
    let entries = std::fs::read_dir(path).map_err(|error| format!("cannot be looked for: {}", error.kind()))?;
    let mut files = entries.flatten().map(|entry| entry.path());
    let mut found = files.by_ref().filter(|file| file.extension().is_some_and(|end| end == "wasm"));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err("is missing: there is no .wasm file".into()),
        (Some(_), Some(_)) => Err("is not clear: there are several .wasm files".into()),
    }
}

/// The bytes of a file, at most so many.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {}", error.kind());
    let file = File::open(path).map_err(unreadable)?;
    // A pipe would keep the start waiting for ever.
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("is not a file".into());
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(format!("has more than {most} bytes"));
    }
    Ok(bytes)
}
