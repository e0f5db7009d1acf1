//! Searches the text files of the workspace for words or for a regular expression.

wit_bindgen::generate!({ path: "../../../wit", world: "skill" });

mod search;

use serde::{Deserialize, Serialize};
use skill_files::Refusal;

/// What the caller sends.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Args {
    query: String,
    #[serde(default)]
    path: String,
    include: Option<String>,
    #[serde(default)]
    regex: bool,
    case_sensitive: Option<bool>,
    max_results: Option<usize>,
}

/// What the caller gets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    success: bool,
    query: String,
    path: String,
    matches: Vec<Match>,
    files_searched: usize,
    files_skipped: usize,
    truncated: bool,
}

/// A line in which it was found.
#[derive(Serialize)]
struct Match {
    path: String,
    line: usize,
    column: usize,
    text: String,
}

struct Skill;

impl Guest for Skill {
    fn run(args: String) -> Result<String, SkillError> {
        let args = serde_json::from_str(&args)
            .map_err(|error| said(Refusal::new("bad-args", error.to_string())))?;
        let answer = search::search(&args).map_err(said)?;
        serde_json::to_string(&answer)
            .map_err(|error| said(Refusal::new("bad-answer", error.to_string())))
    }
}

fn said(refusal: Refusal) -> SkillError {
    SkillError {
        code: refusal.code.into(),
        message: refusal.message,
    }
}

export!(Skill);
