//! Sends one HTTP request: `{"url": "https://…"}` gives `{"status", "headers", "body"}`, and
//! `trailers` where there are some.

wit_bindgen::generate!({ path: "../../../wit", world: "skill" });

mod http;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the caller sends.
#[derive(Deserialize)]
struct Args {
    #[serde(default = "get")]
    method: String,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
}

/// What the caller gets.
#[derive(Serialize)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    trailers: BTreeMap<String, String>,
}

fn get() -> String {
    "GET".into()
}

struct Fetch;

impl Guest for Fetch {
    fn run(args: String) -> Result<String, SkillError> {
        let args: Args =
            serde_json::from_str(&args).map_err(|error| refused("bad-args", error.to_string()))?;
        let answer = http::fetch(&args).map_err(|why| refused("fetch-failed", why))?;
        serde_json::to_string(&answer).map_err(|error| refused("bad-answer", error.to_string()))
    }
}

fn refused(code: &str, message: String) -> SkillError {
    SkillError {
        code: code.into(),
        message,
    }
}

export!(Fetch);
