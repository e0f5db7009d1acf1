//! Who a source is told that we are.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use zeroize::Zeroizing;

use crate::model::{Code, Error};

/// Longest name and longest password, in bytes. Tokens of clouds are long.
const MAX_WORD: usize = 8 << 10;

/// A name and a password. It shows itself to nobody, is never stored, and its memory is
/// overwritten when it goes.
#[derive(Clone)]
pub struct Login(Zeroizing<String>);

impl Login {
    /// Takes both.
    ///
    /// # Errors
    ///
    /// `malformed` if they cannot be sent (RFC 7617).
    pub fn new(username: &str, password: &Zeroizing<String>) -> Result<Self, Error> {
        let legal = |text: &str| text.len() <= MAX_WORD && !text.contains(char::is_control);
        if username.contains(':') || !legal(username) {
            return Err(Error::at(Code::Malformed, "/username", "has a colon, a control character or too many bytes"));
        }
        if !legal(password) {
            return Err(Error::at(Code::Malformed, "/password", "has a control character or too many bytes"));
        }
        Ok(Self(Zeroizing::new(format!("{username}:{}", password.as_str()))))
    }

    /// As `Authorization` has it.
    pub(super) fn header(&self) -> Result<HeaderValue, Error> {
        let text = Zeroizing::new(format!("Basic {}", STANDARD.encode(self.0.as_bytes())));
        let mut value = HeaderValue::from_str(&text).map_err(Error::internal)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login([hidden])")
    }
}
