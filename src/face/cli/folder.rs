//! A skill folder: `SKILL.md` with the manifest in it, and the component beside it.

use std::fs;
use std::path::{Path, PathBuf};

use super::exit::Failure;

/// The info string of the fence that opens a manifest.
const MANIFEST_FENCE: &str = "json skill";

/// What a skill folder holds.
#[derive(Debug)]
pub(super) struct Folder {
    /// The file that the manifest is in.
    pub(super) skill_md: PathBuf,
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
        let manifest = manifest_block(&text).map_err(|why| Failure::usage(format!("{}: {why}", skill_md.display())))?;
        Ok(Self { skill_md, manifest, component: component(path)? })
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

/// The content of the one fenced block that is a manifest, in its own lines.
///
/// Fences as in CommonMark 0.31, section 4.5: a block ends with at least as many of the same
/// character as opened it, so an example inside another block does not count.
fn manifest_block(markdown: &str) -> Result<String, String> {
    let mut found: Option<String> = None;
    let mut lines = markdown.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let Some((fence, info)) = opening(line) else { continue };
        let is_manifest = info == MANIFEST_FENCE;
        let mut block = "\n".repeat(number);
        let mut is_closed = false;
        for (line, _) in lines.by_ref() {
            if closes(line, fence) {
                is_closed = true;
                break;
            }
            block.push_str(line);
            block.push('\n');
        }
        match (is_manifest, is_closed) {
            (false, _) => {}
            (true, false) => return Err("the block opened by ```json skill is not closed".to_owned()),
            (true, true) if found.is_some() => return Err("has more than one block opened by ```json skill".to_owned()),
            (true, true) => found = Some(block),
        }
    }
    found.ok_or_else(|| "has no block opened by ```json skill, which holds the manifest".to_owned())
}

/// The fence that a line opens, and the words behind it.
fn opening(line: &str) -> Option<(&str, &str)> {
    let text = line.trim_start_matches(' ');
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~') && line.len() - text.len() < 4)?;
    let rest = text.trim_start_matches(mark);
    let length = text.len() - rest.len();
    let legal = length >= 3 && !(mark == '`' && rest.contains('`'));
    legal.then(|| (text.get(..length).unwrap_or_default(), rest.trim()))
}

/// Whether a line ends the block that `fence` opened.
fn closes(line: &str, fence: &str) -> bool {
    let text = line.trim_start_matches(' ');
    let mark = fence.chars().next().unwrap_or('`');
    line.len() - text.len() < 4 && text.starts_with(fence) && text.trim_start_matches(mark).trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_the_one_block_with_its_words() {
        let text = "# a\n\n```json\n{}\n```\n\n```json skill\n{\"name\": \"a\"}\n```\ntext\n";
        assert_eq!(manifest_block(text).unwrap(), format!("{}{{\"name\": \"a\"}}\n", "\n".repeat(7)));
    }

    #[test]
    fn an_example_inside_another_block_does_not_count() {
        let inside = "````markdown\n```json skill\n{}\n```\n````\n";
        assert!(manifest_block(inside).unwrap_err().contains("no block"));
        let both = format!("{inside}~~~json skill\n{{ \"a\": 1 }}\n~~~\n");
        assert_eq!(manifest_block(&both).unwrap().trim(), "{ \"a\": 1 }");
    }

    #[test]
    fn two_blocks_or_an_open_one_are_refused() {
        let one = "```json skill\n{}\n```\n";
        assert!(manifest_block(&format!("{one}{one}")).unwrap_err().contains("more than one"));
        assert!(manifest_block("```json skill\n{}\n").unwrap_err().contains("not closed"));
    }

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
