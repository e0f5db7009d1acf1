//! Makes a small copy of a PNG image that fits into a box and keeps its shape.

wit_bindgen::generate!({ path: "../../../wit", world: "skill" });

mod thumb;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::thumb::{BadImage, Size};

/// What the caller sends.
#[derive(Deserialize)]
struct Args {
    /// A PNG file in base64.
    image: String,
    width: u32,
    height: Option<u32>,
}

/// What the caller gets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    /// A PNG file in base64.
    image: String,
    width: u32,
    height: u32,
    source_width: u32,
    source_height: u32,
}

struct ImageThumb;

impl Guest for ImageThumb {
    fn run(args: String) -> Result<String, SkillError> {
        let args: Args = serde_json::from_str(&args).map_err(|e| no("bad-args", e))?;
        let png = BASE64_STANDARD
            .decode(args.image)
            .map_err(|e| no("bad-base64", e))?;
        let within = Size {
            width: args.width,
            height: args.height.unwrap_or(thumb::MAX_SIDE),
        };
        let thumb = thumb::make(&png, within)?;
        let answer = Answer {
            image: BASE64_STANDARD.encode(thumb.png),
            width: thumb.size.width,
            height: thumb.size.height,
            source_width: thumb.source.width,
            source_height: thumb.source.height,
        };
        serde_json::to_string(&answer).map_err(|e| no("internal", e))
    }
}

impl From<BadImage> for SkillError {
    fn from(bad: BadImage) -> Self {
        match bad {
            BadImage::Size(why) => no("bad-size", why),
            BadImage::TooLarge(why) => no("image-too-large", why),
            BadImage::Unreadable(error) => no("bad-image", error),
        }
    }
}

fn no(code: &str, why: impl ToString) -> SkillError {
    SkillError {
        code: code.into(),
        message: why.to_string(),
    }
}

export!(ImageThumb);
