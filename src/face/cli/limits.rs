//! Limits as flags: `--limit NAME=VALUE`.

use serde_json::{Value, json};

use crate::model::LimitsPatch;

/// A limit's name and value.
pub(super) type Limit = (String, Value);

/// Reads one, with the names of the HTTP API; a number, or `unlimited`.
pub(super) fn parse(text: &str) -> Result<Limit, String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE, such as memoryMb=64")?;
    let value = value.parse::<u64>().map_or_else(|_| Value::from(value), Value::from);
    let patch = serde_json::from_value::<LimitsPatch>(json!({ name: value }));
    patch.map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_a_known_name_and_a_fitting_value() {
        assert_eq!(parse("memoryMb=64"), Ok(("memoryMb".into(), 64.into())));
        assert_eq!(parse("fuel=unlimited"), Ok(("fuel".into(), "unlimited".into())));
        assert!(parse("memory=64").unwrap_err().contains("memoryMb"));
        for bad in ["memoryMb", "memoryMb=", "memoryMb=-1", "timeoutMs=unlimited"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
