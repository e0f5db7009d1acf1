//! Requests that may come twice and happen once.

use std::str::FromStr;

use super::{Code, Digest, Error};

/// Most bytes of an [`IdempotencyKey`].
const MAX_BYTES: usize = 255;

/// The word by which a caller knows its own request again: 1 to 255 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IdempotencyKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fits = (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        let wrong = || {
            let detail = format!("Idempotency-Key must be 1 to {MAX_BYTES} visible ASCII characters, without spaces");
            Error::new(Code::Malformed, detail)
        };
        fits.then(|| Self(text.to_owned())).ok_or_else(wrong)
    }
}

/// What makes two requests of one key the same (SPEC §5).
#[derive(Clone, Debug)]
pub struct Idempotency {
    /// The caller's word for it.
    pub key: IdempotencyKey,
    /// SHA-256 of the request: another one under the same word is a mistake.
    pub request: Digest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_short_and_visible() {
        for wrong in ["", " ", "a b", "ä", "a\n", &"a".repeat(256)] {
            assert_eq!(wrong.parse::<IdempotencyKey>().unwrap_err().code, Code::Malformed, "{wrong:?}");
        }
        assert_eq!("a".repeat(255).parse::<IdempotencyKey>().unwrap().as_str().len(), 255);
    }
}
