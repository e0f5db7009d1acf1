//! Keys that come from files and variables.

use std::path::Path;

use crate::model::{MIN_ADMIN_KEY_CHARS, Secret};

use super::{ConfigError, Environment};

/// Reads a key from a file.
///
/// # Errors
///
/// What is wrong with the file or the key in it.
pub fn read_secret(path: &Path) -> Result<Secret, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Secret::new(&text).map_err(|why| format!("the key in {} {why}", path.display()))
}

impl Environment {
    /// The first admin key, if somebody chose one: `SKILLVISOR_ADMIN_KEY` or the content of
    /// the file that `SKILLVISOR_ADMIN_KEY_FILE` names.
    ///
    /// # Errors
    ///
    /// Both are set, the file cannot be read, or the key is too short.
    pub fn admin_key(&self) -> Result<Option<Secret>, ConfigError> {
        let (name, key) = match (self.get("SKILLVISOR_ADMIN_KEY"), self.get("SKILLVISOR_ADMIN_KEY_FILE")) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(ConfigError::new(
                    "SKILLVISOR_ADMIN_KEY and SKILLVISOR_ADMIN_KEY_FILE are both set; keep one of them",
                ));
            }
            (Some(text), None) => ("SKILLVISOR_ADMIN_KEY", Secret::new(text).map_err(str::to_owned)),
            (None, Some(path)) => ("SKILLVISOR_ADMIN_KEY_FILE", read_secret(Path::new(path))),
        };
        let key = key.map_err(|why| ConfigError::new(format!("{name}: {why}")))?;
        if key.reveal().len() < MIN_ADMIN_KEY_CHARS {
            return Err(ConfigError::new(format!(
                "{name}: the key has {} characters and must have at least {MIN_ADMIN_KEY_CHARS}",
                key.reveal().len()
            )));
        }
        Ok(Some(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn an_admin_key_has_at_least_32_characters() {
        let key = |text| Environment::from([("SKILLVISOR_ADMIN_KEY", text)]).admin_key();
        assert_eq!(key(LONG).unwrap().unwrap().reveal(), LONG);
        assert!(key(&LONG[1..]).unwrap_err().to_string().contains("31 characters"));
        assert!(key("").is_err());
        assert!(key("0123456789abcdef 123456789abcdefg").is_err());
        assert!(Environment::default().admin_key().unwrap().is_none());
    }

    #[test]
    fn an_admin_key_may_lie_in_a_file_but_not_in_both_places() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        std::fs::write(&file, format!("{LONG}\n")).unwrap();
        let path = file.to_str().unwrap();
        let both = Environment::from([("SKILLVISOR_ADMIN_KEY", LONG), ("SKILLVISOR_ADMIN_KEY_FILE", path)]);
        assert!(both.admin_key().unwrap_err().to_string().contains("both set"));
        let one = Environment::from([("SKILLVISOR_ADMIN_KEY_FILE", path)]);
        assert_eq!(one.admin_key().unwrap().unwrap().reveal(), LONG);
        let none = Environment::from([("SKILLVISOR_ADMIN_KEY_FILE", "/nonexistent/key")]);
        assert!(none.admin_key().is_err());
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        assert!(!format!("{:?}", Secret::new(LONG).unwrap()).contains(LONG));
    }
}
