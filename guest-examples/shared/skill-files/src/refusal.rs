//! Why a skill says no.

use wasip2::filesystem::types::ErrorCode;

/// A word of the skill's own and a sentence, as `skill-error` has them.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The word. Callers match on it.
    pub code: &'static str,
    /// The sentence.
    pub message: String,
}

impl Refusal {
    /// Says no.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// What the host says of a file.
    pub fn of(path: &str, error: ErrorCode) -> Self {
        let (code, why) = match error {
            ErrorCode::NoEntry => ("not-found", "is not there"),
            ErrorCode::NotPermitted | ErrorCode::Access | ErrorCode::ReadOnly => (
                "denied",
                "may not be changed: the workspace is not granted for writing",
            ),
            ErrorCode::Exist => ("exists", "is there already"),
            ErrorCode::IsDirectory => ("not-a-file", "is a folder"),
            ErrorCode::NotDirectory => ("not-a-folder", "is, or lies below, a file"),
            ErrorCode::NotEmpty => ("not-empty", "is a folder with something in it"),
            ErrorCode::InsufficientSpace | ErrorCode::Quota => (
                "storage-full",
                "does not fit: the quota of the workspace is used up",
            ),
            ErrorCode::Loop => ("not-a-file", "is a link, which is not followed"),
            ErrorCode::NameTooLong | ErrorCode::Invalid | ErrorCode::IllegalByteSequence => {
                ("bad-path", "is no name that a file can have here")
            }
            other => {
                return Self::new(
                    "io-error",
                    format!("`{path}` cannot be used: {}", other.name()),
                );
            }
        };
        Self::new(code, format!("`{path}` {why}"))
    }
}
