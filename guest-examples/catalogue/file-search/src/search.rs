//! Looking through files, within bounds.

use regex_lite::{Regex, RegexBuilder, escape};
use skill_files::{FilePath, Kind, MAX_BYTES, Refusal, Workspace, is_restricted};

use crate::{Answer, Args, Match};

/// Matches that are given where nothing is said, and at most.
const DEFAULT: usize = 100;
const MOST: usize = 1000;
/// Bytes that one call reads.
const MOST_BYTES: u64 = 64 << 20;
/// Characters of a line that are shown.
const SHOWN: usize = 300;
/// Bytes of a compiled expression.
const EXPRESSION: usize = 1 << 20;

pub(crate) fn search(args: &Args) -> Result<Answer, Refusal> {
    let path = FilePath::folder(&args.path)?;
    let wanted = expression(args)?;
    let most = args
        .max_results
        .filter(|most| *most > 0)
        .unwrap_or(DEFAULT)
        .min(MOST);
    let workspace = Workspace::open()?;
    let mut answer = Answer {
        success: true,
        query: args.query.clone(),
        path: path.as_str().to_owned(),
        matches: Vec::new(),
        files_searched: 0,
        files_skipped: 0,
        truncated: false,
    };
    let mut left = MOST_BYTES;
    for file in files(&workspace, path, args.include.as_deref())? {
        let Ok(stat) = workspace.stat(&file) else {
            continue;
        };
        if stat.size > left || answer.matches.len() >= most {
            answer.truncated = true;
            break;
        }
        left -= stat.size;
        let text = (stat.size <= MAX_BYTES)
            .then(|| workspace.read(&file, 0, MAX_BYTES).ok())
            .flatten()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        match text {
            Some(text) => {
                answer.files_searched += 1;
                look(&text, &file, &wanted, most, &mut answer);
            }
            None => answer.files_skipped += 1,
        }
    }
    Ok(answer)
}

fn expression(args: &Args) -> Result<Regex, Refusal> {
    if args.query.is_empty() {
        return Err(Refusal::new("bad-query", "the query is empty"));
    }
    let source = if args.regex {
        args.query.clone()
    } else {
        escape(&args.query)
    };
    let mut builder = RegexBuilder::new(&source);
    builder
        .case_insensitive(!args.case_sensitive.unwrap_or(true))
        .size_limit(EXPRESSION);
    builder
        .build()
        .map_err(|error| Refusal::new("bad-query", format!("not a regular expression: {error}")))
}

/// The files below a path, or the one that it names, in the order of their paths.
fn files(
    workspace: &Workspace,
    path: FilePath,
    include: Option<&str>,
) -> Result<Vec<FilePath>, Refusal> {
    if workspace.stat(&path)?.kind == Kind::File {
        return Ok(vec![path]);
    }
    let (mut found, mut folders) = (Vec::new(), vec![path]);
    while let Some(folder) = folders.pop() {
        for entry in workspace.list(&folder)? {
            let below = folder.join(&entry.name);
            if is_restricted(&entry.name) {
                continue;
            }
            match entry.kind {
                Kind::Folder => folders.push(below),
                Kind::File if is_included(include, &below, &entry.name) => found.push(below),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A pattern with `/` is for the path, any other for the name alone.
fn is_included(include: Option<&str>, path: &FilePath, name: &str) -> bool {
    include.is_none_or(|pattern| {
        let text = if pattern.contains('/') {
            path.as_str()
        } else {
            name
        };
        fast_glob::glob_match(pattern, text)
    })
}

fn look(text: &str, file: &FilePath, wanted: &Regex, most: usize, answer: &mut Answer) {
    for (line, number) in text.lines().zip(1..) {
        let Some(found) = wanted.find(line) else {
            continue;
        };
        if answer.matches.len() >= most {
            answer.truncated = true;
            return;
        }
        let before = line.get(..found.start()).unwrap_or_default();
        answer.matches.push(Match {
            path: file.as_str().to_owned(),
            line: number,
            column: before.chars().count() + 1,
            text: shown(line, before.chars().count()),
        });
    }
}

/// The line, or the part of a long one around what was found.
fn shown(line: &str, column: usize) -> String {
    let skip = if line.chars().count() > SHOWN {
        column.saturating_sub(SHOWN / 3)
    } else {
        0
    };
    line.chars().skip(skip).take(SHOWN).collect()
}
