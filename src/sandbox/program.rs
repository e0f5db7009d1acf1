//! Programs (SPEC §4, shapes 3 and 5, and §7): what became of what they printed.

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::model::{Code, Limits, RunError};

use super::endings::output_too_large;
use super::printed::{Printed, clean};

/// Most bytes of an output.
pub(super) fn output_bytes(limits: &Limits) -> usize {
    usize::try_from(limits.output_bytes).unwrap_or(usize::MAX >> 1)
}

pub(super) fn exit_nonzero(code: i32) -> RunError {
    RunError {
        code: Code::ExitNonzero,
        message: format!("the program ended with the exit code {code}; what it printed may say why"),
        detail: Some(json!({ "exitCode": code })),
    }
}

/// What was printed: as it is if that is JSON, `null` if it is nothing, and else as a text.
pub(super) fn output(printed: &Printed, limits: &Limits) -> Result<String, RunError> {
    if printed.truncated {
        return Err(output_too_large(limits));
    }
    if let Ok(text) = std::str::from_utf8(&printed.bytes) {
        let text = text.trim();
        if text.is_empty() {
            return Ok("null".into());
        }
        if serde_json::from_str::<&RawValue>(text).is_ok() {
            return Ok(text.to_owned());
        }
    }
    text(&clean(&printed.bytes, output_bytes(limits)).0, limits)
}

/// A text as JSON, if that is no longer than an output may be.
pub(super) fn text(text: &str, limits: &Limits) -> Result<String, RunError> {
    match to_raw_value(text) {
        Ok(json) if json.get().len() <= output_bytes(limits) => Ok(json.get().to_owned()),
        _ => Err(output_too_large(limits)),
    }
}
