//! Limits as flags: `--limit NAME=VALUE`.

use serde_json::{Value, json};

use crate::model::{Budgets, LimitsPatch, Rates, StorageCeilings};

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

/// Reads a ceiling of what may lie here: a name of the HTTP API and a number.
pub(super) fn storage(text: &str) -> Result<Limit, String> {
    number::<StorageCeilings>(text, "fileBytes=1000000")
}

/// The same for a rate.
pub(super) fn rate(text: &str) -> Result<Limit, String> {
    number::<Rates>(text, "executionsPerMinute=60")
}

/// The same for what may be used up in a day.
pub(super) fn budget(text: &str) -> Result<Limit, String> {
    number::<Budgets>(text, "executionsPerDay=5000")
}

/// A member of `T` that is a number.
fn number<T: serde::de::DeserializeOwned>(text: &str, example: &str) -> Result<Limit, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("write it as NAME=VALUE, such as {example}"))?;
    let value = value.parse::<u64>().map(Value::from).map_err(|_| format!("{name} takes a number"))?;
    serde_json::from_value::<T>(json!({ name: value })).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value))
}

/// Reads a time.
pub(super) fn milliseconds(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "give a number of milliseconds, such as 5000 for 5 s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_of_storage_has_a_known_name_and_a_number() {
        assert_eq!(storage("files=5"), Ok(("files".into(), 5.into())));
        assert!(storage("disk=5").unwrap_err().contains("fileBytes"));
        assert!(storage("files=many").unwrap_err().contains("a number"));
        assert_eq!(rate("executionsPerMinute=60"), Ok(("executionsPerMinute".into(), 60.into())));
        assert_eq!(budget("fuelPerDay=7"), Ok(("fuelPerDay".into(), 7.into())));
        assert!(budget("fuel=7").unwrap_err().contains("fuelPerDay") && rate("60").is_err());
    }

    #[test]
    fn a_time_has_no_unit() {
        assert_eq!(milliseconds("5000"), Ok(5000));
        assert!(milliseconds("5s").unwrap_err().contains("milliseconds"));
    }

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
