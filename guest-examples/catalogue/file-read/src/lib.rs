//! Reads a file of the workspace, whole or in part, as text or as base64.

wit_bindgen::generate!({ path: "../../../wit", world: "skill" });

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use skill_files::{FilePath, Kind, MAX_BYTES, Refusal, Workspace};

/// What the caller sends.
#[derive(Deserialize)]
struct Args {
    path: String,
    #[serde(default)]
    encoding: Encoding,
    offset: Option<u64>,
    length: Option<u64>,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Utf8,
    Base64,
}

/// What the caller gets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    success: bool,
    path: String,
    content: String,
    encoding: Encoding,
    offset: u64,
    bytes_read: usize,
    size: u64,
}

fn read(args: &Args) -> Result<Answer, Refusal> {
    let path = FilePath::file(&args.path)?;
    let workspace = Workspace::open()?;
    let stat = workspace.stat(&path)?;
    if stat.kind != Kind::File {
        let why = format!("`{}` is not a file", path.as_str());
        return Err(Refusal::new("not-a-file", why));
    }
    let offset = args.offset.unwrap_or(0);
    let mut bytes = match (args.offset, args.length) {
        (None, None) => workspace.read_whole(&path, stat.size)?,
        (_, length) => {
            let most = length.filter(|length| *length > 0).unwrap_or(MAX_BYTES);
            workspace.read(&path, offset, most.min(MAX_BYTES))?
        }
    };
    let content = match args.encoding {
        Encoding::Base64 => STANDARD.encode(&bytes),
        Encoding::Utf8 => {
            let is_end = offset.saturating_add(bytes.len() as u64) >= stat.size;
            text(&mut bytes, is_end).ok_or_else(|| not_text(&path))?
        }
    };
    Ok(Answer {
        success: true,
        path: path.as_str().to_owned(),
        content,
        encoding: args.encoding,
        offset,
        bytes_read: bytes.len(),
        size: stat.size,
    })
}

/// The bytes as text. A character that the end of the range cuts is left for the next one.
fn text(bytes: &mut Vec<u8>, is_end: bool) -> Option<String> {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
        && !is_end
        && error.valid_up_to() > 0
    {
        bytes.truncate(error.valid_up_to());
    }
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

fn not_text(path: &FilePath) -> Refusal {
    let why = format!(
        "`{}` is not UTF-8 text there; use the encoding base64",
        path.as_str()
    );
    Refusal::new("not-text", why)
}

struct Skill;

impl Guest for Skill {
    fn run(args: String) -> Result<String, SkillError> {
        let args = serde_json::from_str(&args)
            .map_err(|error| said(Refusal::new("bad-args", error.to_string())))?;
        let answer = read(&args).map_err(said)?;
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
