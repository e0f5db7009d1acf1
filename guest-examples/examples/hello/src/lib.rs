//! Greets by name: `{"name": "Ada"}` gives `{"greeting": "Hello, Ada!"}`.

wit_bindgen::generate!({ path: "../../../wit", world: "skill" });

use serde::{Deserialize, Serialize};

/// What the caller sends. The host has checked it against the input schema already.
#[derive(Deserialize)]
struct Args {
    name: Option<String>,
}

/// What the caller gets.
#[derive(Serialize)]
struct Answer {
    greeting: String,
}

struct Hello;

impl Guest for Hello {
    fn run(args: String) -> Result<String, SkillError> {
        let args: Args = serde_json::from_str(&args).map_err(bad_args)?;
        let name = args.name.as_deref().unwrap_or("world");
        let greeting = format!("Hello, {name}!");
        serde_json::to_string(&Answer { greeting }).map_err(bad_args)
    }
}

/// A skill says no with a code that callers match on and a sentence for a person.
fn bad_args(error: serde_json::Error) -> SkillError {
    SkillError {
        code: "bad-args".into(),
        message: error.to_string(),
    }
}

export!(Hello);
