//! Counts what a text is made of and tells its most frequent words.

wit_bindgen::generate!({ path: "../../../wit", world: "skill" });

mod count;

use serde::Deserialize;

/// What the caller sends.
#[derive(Deserialize)]
struct Args {
    text: String,
    /// How many of the most frequent words to tell.
    #[serde(default = "default_top")]
    top: usize,
}

fn default_top() -> usize {
    10
}

struct WordCount;

impl Guest for WordCount {
    fn run(args: String) -> Result<String, SkillError> {
        let args: Args = serde_json::from_str(&args).map_err(bad_args)?;
        let counts = count::count(&args.text, args.top);
        serde_json::to_string(&counts).map_err(bad_args)
    }
}

fn bad_args(error: serde_json::Error) -> SkillError {
    SkillError {
        code: "bad-args".into(),
        message: error.to_string(),
    }
}

export!(WordCount);
