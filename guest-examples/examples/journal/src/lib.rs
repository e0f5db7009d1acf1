//! Has `hello` greet, and keeps the greetings: `{"name": "Ada"}` gives
//! `{"greeting": "Hello, Ada!", "lines": 1}`, then 2, and so on.

wit_bindgen::generate!({ path: "../../../wit", world: "skill" });

use std::fs::OpenOptions;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use skillvisor::skill::skills;

/// Where the greetings lie. All that a skill sees of files is below `/workspace`.
const FILE: &str = "/workspace/journal.txt";

/// What `hello` gives.
#[derive(Deserialize)]
struct Greeted {
    greeting: String,
}

/// What the caller gets.
#[derive(Serialize)]
struct Answer {
    greeting: String,
    lines: usize,
}

struct Journal;

impl Guest for Journal {
    fn run(args: String) -> Result<String, SkillError> {
        let greeted = skills::call("hello", &args).map_err(|error| {
            refused("not-greeted", format!("{}: {}", error.code, error.message))
        })?;
        let Greeted { greeting } = serde_json::from_str(&greeted)
            .map_err(|error| refused("bad-greeting", error.to_string()))?;
        let lines =
            keep(&greeting).map_err(|error| refused("not-kept", format!("{FILE}: {error}")))?;
        serde_json::to_string(&Answer { greeting, lines })
            .map_err(|error| refused("bad-answer", error.to_string()))
    }
}

/// Writes one line more, and counts them.
fn keep(line: &str) -> io::Result<usize> {
    let mut file = OpenOptions::new().create(true).append(true).open(FILE)?;
    writeln!(file, "{line}")?;
    Ok(std::fs::read_to_string(FILE)?.lines().count())
}

fn refused(code: &str, message: String) -> SkillError {
    SkillError {
        code: code.into(),
        message,
    }
}

export!(Journal);
