//! A skill folder: `SKILL.md` with the manifest in it, and the component beside it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::model::{NO_MANIFEST_BLOCK, manifest_block};

use super::exit::Failure;

/// What a skill folder holds.
#[derive(Debug)]
pub(super) struct Folder {
    /// The file that the manifest is in.
    pub(super) skill_md: PathBuf,
    /// All of its text.
    pub(super) text: String,
    /// The manifest, as JSON, with as many empty lines before it as there are lines in the file:
    /// whoever finds something wrong in a line names the line of the file.
    pub(super) manifest: String,
    /// The component.
    pub(super) component: PathBuf,
}

impl Folder {
    /// Reads the folder at `path`.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let skill_md = path.join("SKILL.md");
        let text = fs::read_to_string(&skill_md).map_err(|error| {
            Failure::unreadable(&skill_md, &error)
                .hint("a skill folder has a SKILL.md; push the .wasm file alone without one")
        })?;
        let manifest = manifest_block(&text).and_then(|block| block.ok_or(NO_MANIFEST_BLOCK));
        let manifest = manifest.map_err(|why| Failure::usage(format!("{} {why}", skill_md.display())))?;
        Ok(Self { skill_md, text, manifest, component: component(path)? })
    }
}

/// The one `.wasm` file in the folder.
fn component(path: &Path) -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(path).map_err(|error| Failure::unreadable(path, &error))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "wasm"))
        .collect();
    found.sort();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::usage(format!("{} has no .wasm file", path.display()))
            .hint("build the component and put it beside SKILL.md")),
        [first, second, ..] => {
            let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let detail = format!("{} has several .wasm files ({}, {}, …)", path.display(), name(first), name(second));
            Err(Failure::usage(detail).hint("push the right one with --manifest FILE"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_component() {
        let dir = tempfile::tempdir().unwrap();
        let read = || Folder::read(dir.path());
        assert!(read().unwrap_err().detail.contains("SKILL.md"));
        fs::write(dir.path().join("SKILL.md"), "```json skill\n{}\n```\n").unwrap();
        assert!(read().unwrap_err().detail.contains("no .wasm"));
        fs::write(dir.path().join("a.wasm"), "").unwrap();
        assert_eq!(read().unwrap().component, dir.path().join("a.wasm"));
        fs::write(dir.path().join("b.wasm"), "").unwrap();
        assert!(read().unwrap_err().detail.contains("several"));
    }
}
