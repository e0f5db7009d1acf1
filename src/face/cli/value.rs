//! Reading members of an answer, which may be from a newer server and miss some.

use serde_json::Value;

use super::table;

/// The member `name` as text; nothing if it is absent or null.
pub(super) fn text(value: &Value, name: &str) -> String {
    match value.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The texts in the list `name`.
pub(super) fn texts(value: &Value, name: &str) -> Vec<String> {
    let item = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
    list(value, name).iter().map(item).collect()
}

/// The list `name`.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A skill as `name@version`.
pub(super) fn address(skill: &Value) -> String {
    format!("{}@{}", text(skill, "name"), text(skill, "version"))
}

/// Whether a skill can run, in a word.
pub(super) fn standing(skill: &Value) -> String {
    if text(skill, "approval") == "pending" {
        return "unapproved".to_owned();
    }
    if skill.get("enabled") == Some(&Value::Bool(false)) { "disabled".to_owned() } else { text(skill, "state") }
}

/// Lines of a name and a value, without those that have no value.
pub(super) fn facts(facts: &[(&str, String)]) -> String {
    let given = facts.iter().filter(|(_, value)| !value.is_empty());
    let widest = given.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| format!("{:<width$}  {}", name, table::one_line(value), width = widest);
    given.map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_absent_is_empty() {
        let value = json!({ "a": null, "b": 1, "c": "x", "d": ["y", 2] });
        assert_eq!(["a", "b", "c", "e"].map(|name| text(&value, name)), ["", "1", "x", ""]);
        assert_eq!(texts(&value, "d"), ["y", "2"]);
        assert!(list(&value, "a").is_empty());
    }

    #[test]
    fn facts_without_a_value_are_left_out() {
        assert_eq!(facts(&[("a", "1".into()), ("bcd", String::new()), ("ef", "2".into())]), "a   1\nef  2");
    }
}
