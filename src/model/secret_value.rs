//! What a stored secret is: a value that goes into a header and nowhere else.

use std::fmt;

use zeroize::Zeroizing;

/// Fewest bytes of a secret: of a shorter one, what happens to look like it would be taken out of
/// every answer.
pub const MIN_SECRET_BYTES: usize = 8;
/// Most bytes of a secret.
pub const MAX_SECRET_BYTES: usize = 2048;

/// The value of a secret. It shows itself to nobody, and its memory is overwritten when it goes.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    /// Takes a value, without the line end that files and pipes have.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words that do not repeat it.
    pub fn new(text: Zeroizing<String>) -> Result<Self, String> {
        let value = text.trim_end_matches(['\r', '\n']);
        if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&value.len()) {
            return Err(format!("must have {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes, and has {}", value.len()));
        }
        if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has a character that is not visible ASCII, and could not be sent in a header".to_owned());
        }
        Ok(Self(Zeroizing::new(value.to_owned())))
    }

    /// The value itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue([hidden])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<SecretValue, String> {
        SecretValue::new(Zeroizing::new(text.to_owned()))
    }

    #[test]
    fn a_value_is_visible_ascii_of_some_length_without_its_line_end() {
        assert_eq!(value("abcdefgh\r\n").unwrap().reveal(), "abcdefgh");
        assert!(value(&"x".repeat(MAX_SECRET_BYTES)).is_ok());
        for bad in ["", "abcdefg\n", "abcd efgh", "abcdefg\u{7f}", "passwörter", &"x".repeat(MAX_SECRET_BYTES + 1)] {
            let why = value(bad).unwrap_err();
            assert!(bad.is_empty() || !why.contains(bad), "{why}");
        }
    }

    #[test]
    fn it_does_not_show_itself() {
        assert_eq!(format!("{:?}", value("abcdefgh").unwrap()), "SecretValue([hidden])");
    }
}
