//! Keys that come from outside, kept out of logs.

use std::fmt;

/// The fewest characters of an admin key that somebody chose.
pub const MIN_ADMIN_KEY_CHARS: usize = 32;

/// A key that must not be printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a key, without the line end that files and pipes have.
    ///
    /// # Errors
    ///
    /// What is wrong, if it could not be sent in a header.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.is_empty() {
            return Err("is empty");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has a character that is not visible ASCII");
        }
        Ok(Self(text.to_owned()))
    }

    /// The key itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([hidden])")
    }
}
