//! Fetches a web page, and those that it links to on the same site, as Markdown, text or links.

wit_bindgen::generate!({ path: "../../../wit", world: "skill" });

mod crawl;
mod fetch;
mod page;
mod prune;
mod tree;
mod words;

use serde::{Deserialize, Serialize};
use skill_web::Refusal;

use crate::page::{Link, Metadata};

/// What the caller sends.
#[derive(Deserialize)]
struct Args {
    url: String,
    #[serde(default)]
    format: Format,
    #[serde(default)]
    depth: u8,
    include_metadata: Option<bool>,
    #[serde(rename = "timeoutMs")]
    timeout_ms: Option<u64>,
    #[serde(rename = "maxBytes")]
    max_bytes: Option<usize>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Markdown,
    Text,
    Html,
    Links,
    Screenshot,
}

/// What the caller gets.
#[derive(Serialize)]
struct Answer {
    success: bool,
    provider: &'static str,
    #[serde(flatten)]
    page: Fetched,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<Vec<Fetched>>,
    screenshot_url: Option<String>,
    truncated: bool,
}

/// One page.
#[derive(Serialize)]
struct Fetched {
    url: String,
    status: u16,
    content: String,
    links: Vec<Link>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
}

struct Skill;

impl Guest for Skill {
    fn run(args: String) -> Result<String, SkillError> {
        let args = serde_json::from_str(&args)
            .map_err(|error| said(Refusal::new("bad-args", error.to_string())))?;
        let answer = crawl::crawl(&args).map_err(said)?;
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
