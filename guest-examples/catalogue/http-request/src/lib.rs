//! Sends one HTTP request and gives back what came.

wit_bindgen::generate!({ path: "../../../wit", world: "skill" });

mod headers;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_web::{Deadline, Refusal, Request, Response, decode, parse_url, send};

/// Time and bytes where nothing is said, and at most.
const DEFAULT_MS: u64 = 10_000;
const MOST_MS: u64 = 60_000;
const MOST_BYTES: u64 = 256_000;
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// What the caller sends.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Args {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    body: Option<Value>,
    timeout_ms: Option<u64>,
    max_bytes: Option<u64>,
}

/// What the caller gets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    success: bool,
    url: String,
    method: String,
    status: u16,
    status_text: &'static str,
    headers: BTreeMap<String, String>,
    body: String,
    body_encoding: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    charset: Option<&'static str>,
    truncated: bool,
}

fn request(args: &Args) -> Result<Answer, Refusal> {
    let url = parse_url(&args.url)?;
    let method = args.method.as_deref().unwrap_or("GET").to_ascii_uppercase();
    if !METHODS.contains(&method.as_str()) {
        let why = format!("the method must be one of {}", METHODS.join(", "));
        return Err(Refusal::new("unsupported-method", why));
    }
    let mut headers = headers::sendable(&args.headers);
    let body = args
        .body
        .as_ref()
        .filter(|body| !body.is_null() && !matches!(method.as_str(), "GET" | "HEAD"));
    let body = body.map(|body| match body {
        Value::String(text) => text.clone(),
        json => {
            if !headers.iter().any(|(name, _)| name == "content-type") {
                headers.push(("content-type".into(), "application/json".into()));
            }
            json.to_string()
        }
    });
    let ms = args.timeout_ms.filter(|ms| *ms > 0).unwrap_or(DEFAULT_MS);
    let most = args.max_bytes.filter(|most| *most > 0);
    let most = most.unwrap_or(MOST_BYTES).min(MOST_BYTES);
    let response = send(&Request {
        method: &method,
        url: &url,
        headers: &headers,
        body: body.as_ref().map(String::as_bytes),
        deadline: Deadline::in_ms(ms.min(MOST_MS)),
        most: usize::try_from(most).unwrap_or(usize::MAX),
    })?;
    Ok(answer(url.as_str(), method, response))
}

fn answer(url: &str, method: String, response: Response) -> Answer {
    let kind = response.header("content-type").unwrap_or_default();
    let (body, body_encoding, charset) = if is_text(kind, &response.body) {
        let text = decode(&response.body, kind);
        (text.text, "utf8", Some(text.charset))
    } else {
        (STANDARD.encode(&response.body), "base64", None)
    };
    let reason = http::StatusCode::from_u16(response.status).ok();
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in response.headers {
        let all = headers.entry(name).or_default();
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(&value);
    }
    Answer {
        success: (200..300).contains(&response.status),
        url: url.to_owned(),
        method,
        status: response.status,
        status_text: reason
            .and_then(|code| code.canonical_reason())
            .unwrap_or(""),
        headers,
        body,
        body_encoding,
        charset,
        truncated: response.truncated,
    }
}

/// Whether a body is for reading: its type says so, or it has none and no zero byte.
fn is_text(content_type: &str, body: &[u8]) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    let texts = [
        "json",
        "xml",
        "javascript",
        "yaml",
        "csv",
        "urlencoded",
        "graphql",
        "toml",
    ];
    match kind.split_once('/') {
        Some(("text", _)) => true,
        Some(("image", "svg+xml")) => true,
        Some(("image" | "audio" | "video" | "font", _)) => false,
        Some((_, sub)) if texts.iter().any(|text| sub.contains(text)) => true,
        Some(("application", _)) => false,
        _ => !body.contains(&0),
    }
}

struct Skill;

impl Guest for Skill {
    fn run(args: String) -> Result<String, SkillError> {
        let args = serde_json::from_str(&args)
            .map_err(|error| said(Refusal::new("bad-args", error.to_string())))?;
        let answer = request(&args).map_err(said)?;
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
