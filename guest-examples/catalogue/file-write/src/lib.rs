//! Writes a file of the workspace: in the place of what is there, behind it, or only if nothing is.

wit_bindgen::generate!({ path: "../../../wit", world: "skill" });

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use skill_files::{FilePath, MAX_BYTES, Refusal, Way, Workspace};

/// What the caller sends.
#[derive(Deserialize)]
struct Args {
    path: String,
    content: String,
    #[serde(default)]
    encoding: Encoding,
    #[serde(default)]
    append: bool,
    overwrite: Option<bool>,
}

#[derive(Clone, Copy, Default, Deserialize)]
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
    bytes_written: usize,
}

fn write(args: &Args) -> Result<Answer, Refusal> {
    let path = FilePath::file(&args.path)?;
    let bytes = match args.encoding {
        Encoding::Utf8 => args.content.as_bytes().to_vec(),
        Encoding::Base64 => STANDARD
            .decode(&args.content)
            .map_err(|error| Refusal::new("bad-content", format!("not base64: {error}")))?,
    };
    if bytes.len() as u64 > MAX_BYTES {
        let why = format!(
            "the content has more than {MAX_BYTES} bytes; append the rest in further calls"
        );
        return Err(Refusal::new("too-large", why));
    }
    let way = match (args.append, args.overwrite.unwrap_or(true)) {
        (true, _) => Way::Append,
        (false, true) => Way::Replace,
        (false, false) => Way::New,
    };
    Workspace::open()?.write(&path, &bytes, way)?;
    Ok(Answer {
        success: true,
        path: path.as_str().to_owned(),
        bytes_written: bytes.len(),
    })
}

struct Skill;

impl Guest for Skill {
    fn run(args: String) -> Result<String, SkillError> {
        let args = serde_json::from_str(&args)
            .map_err(|error| said(Refusal::new("bad-args", error.to_string())))?;
        let answer = write(&args).map_err(said)?;
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
