//! `skillvisor.toml`.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::sources::{Given, Source};
use crate::model::nearest;

use super::{ConfigError, SETTINGS};

/// Reads the settings that a file gives.
///
/// # Errors
///
/// The file cannot be read, is not TOML, or has something in it that is no setting.
pub(super) fn read(path: &Path) -> Result<BTreeMap<&'static str, Given>, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::new(format!("cannot read {}: {error}", path.display())))?;
    let table: Table =
        text.parse().map_err(|error| ConfigError::new(format!("{} is not TOML: {error}", path.display())))?;
    let mut leaves = Vec::new();
    flatten("", &table, &mut leaves);
    let mut given = BTreeMap::new();
    let mut problems = Vec::new();
    for (name, value) in leaves {
        // As in the example, where every setting of a table is commented out.
        if is_section(&name) && value.is_table() {
            continue;
        }
        match setting(&name, value, path) {
            Ok((name, value)) if given.contains_key(name) => {
                drop(value);
                problems.push(format!("{name} stands twice in {}", path.display()));
            }
            Ok((name, value)) => drop(given.insert(name, value)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(given) } else { Err(ConfigError { problems }) }
}

/// Every value that is no table, with its dotted name.
fn flatten<'a>(prefix: &str, table: &'a Table, leaves: &mut Vec<(String, &'a Value)>) {
    for (key, value) in table {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(inner) if !inner.is_empty() => flatten(&name, inner, leaves),
            _ => leaves.push((name, value)),
        }
    }
}

/// Whether `name` is the table that some settings stand in.
fn is_section(name: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.name.split_once('.').is_some_and(|(section, _)| section == name))
}

/// The setting with this name, and the value as text.
fn setting(name: &str, value: &Value, path: &Path) -> Result<(&'static str, Given), String> {
    if is_section(name) {
        return Err(format!("{name} in {} is a table; write [{name}] and its settings below", path.display()));
    }
    let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
        let meant = nearest(name, SETTINGS.iter().map(|setting| setting.name)).unwrap_or_default();
        return Err(format!("unknown setting {name} in {}; the nearest known one is {meant}", path.display()));
    };
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Boolean(switch) => switch.to_string(),
        other => {
            let kind = other.type_str();
            return Err(format!(
                "{name} = {other} (file {}): must be {}, not a {kind}",
                path.display(),
                setting.allowed
            ));
        }
    };
    Ok((setting.name, Given { text, source: Source::File(path.to_owned()) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.toml");
        std::fs::write(&file, text).unwrap();
        let problem = read(&file).err().map_or_else(String::new, |error| error.to_string());
        problem.replace(file.to_str().unwrap(), "FILE")
    }

    #[test]
    fn tables_dotted_and_quoted_names_are_the_same() {
        for good in [
            "[upload]\nmax_bytes = 5",
            "upload.max_bytes = \"5\"",
            "upload = { max_bytes = 5 }",
            "\"upload.max_bytes\" = 5",
        ] {
            assert_eq!(problems(good), "", "{good}");
        }
        assert_eq!(problems("\"queue.host\" = 5\n[queue]\nhost = 6"), "queue.host stands twice in FILE");
    }

    #[test]
    fn an_empty_table_is_no_mistake() {
        assert_eq!(problems("[upload]\n# max_bytes = 5\n[queue]"), "");
        assert_eq!(problems(&super::super::example_toml()), "");
    }

    #[test]
    fn what_is_no_setting_is_named() {
        assert_eq!(problems("listne = 1"), "unknown setting listne in FILE; the nearest known one is listen");
        assert_eq!(problems("upload = 5"), "upload in FILE is a table; write [upload] and its settings below");
        assert_eq!(problems("[uplod]"), "unknown setting uplod in FILE; the nearest known one is listen");
        assert_eq!(problems("listen.port = 5"), "unknown setting listen.port in FILE; the nearest known one is listen");
        assert_eq!(
            problems("queue.host = 1.5"),
            "queue.host = 1.5 (file FILE): must be a whole number from 1 to 1000000, not a float"
        );
        assert!(problems("listen").starts_with("FILE is not TOML: "));
    }
}
