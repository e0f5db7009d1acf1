//! `SKILL.md`: where the manifest is in it.

/// Longest `SKILL.md`, in bytes.
pub const MAX_SKILL_MD_BYTES: usize = 512 << 10;
/// What is wrong with a `SKILL.md` without a manifest, as the end of a sentence about it.
pub const NO_MANIFEST_BLOCK: &str = "has no block opened by ```json skill, which holds the manifest";
/// The info string of the fence that opens a manifest.
const MANIFEST_FENCE: &str = "json skill";

/// The content of the one fenced block of a `SKILL.md` that is a manifest, with as many empty lines
/// before it as there are in the file: whoever finds something wrong in a line names the line of the
/// file.
///
/// Fences as in CommonMark 0.31, section 4.5: a block ends with at least as many of the same
/// character as opened it, so an example inside another block does not count.
///
/// # Errors
///
/// What is wrong with the block, as the end of a sentence about the file.
pub fn manifest_block(markdown: &str) -> Result<Option<String>, &'static str> {
    let mut found: Option<String> = None;
    let mut lines = markdown.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let Some((fence, info)) = opening(line) else { continue };
        let is_manifest = info == MANIFEST_FENCE;
        // Of one block only: a file of nothing but fences must not be worth a copy of it for each.
        let mut block = if is_manifest { "\n".repeat(number) } else { String::new() };
        let mut is_closed = false;
        for (line, _) in lines.by_ref() {
            if closes(line, fence) {
                is_closed = true;
                break;
            }
            if is_manifest {
                block.push_str(line);
                block.push('\n');
            }
        }
        match (is_manifest, is_closed) {
            (false, _) => {}
            (true, false) => return Err("has a block opened by ```json skill that is not closed"),
            (true, true) if found.is_some() => return Err("has more than one block opened by ```json skill"),
            (true, true) => found = Some(block),
        }
    }
    Ok(found)
}

/// What a `SKILL.md` says besides the manifest in it: all lines but those of that block.
pub fn without_manifest(markdown: &str) -> String {
    let mut text = String::with_capacity(markdown.len());
    let mut say = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        let Some((fence, info)) = opening(line) else {
            say(line);
            continue;
        };
        let told = info != MANIFEST_FENCE;
        if told {
            say(line);
        }
        for line in lines.by_ref() {
            if told {
                say(line);
            }
            if closes(line, fence) {
                break;
            }
        }
    }
    text
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
        assert_eq!(manifest_block(text).unwrap().unwrap(), format!("{}{{\"name\": \"a\"}}\n", "\n".repeat(7)));
    }

    #[test]
    fn an_example_inside_another_block_does_not_count() {
        let inside = "````markdown\n```json skill\n{}\n```\n````\n";
        assert_eq!(manifest_block(inside), Ok(None));
        let both = format!("{inside}~~~json skill\n{{ \"a\": 1 }}\n~~~\n");
        assert_eq!(manifest_block(&both).unwrap().unwrap().trim(), "{ \"a\": 1 }");
    }

    #[test]
    fn what_is_said_besides_the_manifest_is_all_but_its_block() {
        let text = "# a\n```json\n{}\n```\n~~~json skill\n{\"version\": \"1.0.0\"}\n~~~\nDo this.\n";
        assert_eq!(without_manifest(text), "# a\n```json\n{}\n```\nDo this.\n");
    }

    #[test]
    fn two_blocks_or_an_open_one_are_refused() {
        let one = "```json skill\n{}\n```\n";
        assert!(manifest_block(&format!("{one}{one}")).unwrap_err().contains("more than one"));
        assert!(manifest_block("```json skill\n{}\n").unwrap_err().contains("is not closed"));
    }
}
