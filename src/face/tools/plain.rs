//! JSON Schemas in the part of the language that providers take: what is left out is looser, never tighter, and
//! the host checks the arguments against the skill's own schema.

use serde_json::{Value, json};

use super::JsonObject;

/// Words that an object's schema must not have at its top, where providers want plain objects.
const NOT_AT_TOP: [&str; 15] = [
    "$schema",
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "enum",
    "const",
    "dependentSchemas",
    "dependentRequired",
    "unevaluatedProperties",
];
/// Words under which there is one schema, a list of them, or schemas by name.
const ONE: [&str; 11] = [
    "items",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// A schema of an object, without any choice at its top and with a schema for the items of each array.
pub(super) fn object(mut schema: JsonObject) -> Value {
    fold(&mut schema);
    for word in NOT_AT_TOP {
        schema.remove(word);
    }
    schema.insert("type".to_owned(), json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    let mut whole = Value::Object(schema);
    each(&mut whole, &mut |schema| {
        let is_array = schema.get("type").is_some_and(|kind| names(kind, "array"));
        if is_array && !schema.get("items").is_some_and(Value::is_object) {
            schema.insert("items".to_owned(), json!({}));
        }
    });
    whole
}

/// The same schema with only those properties whose names fit; what had others takes any.
pub(super) fn with_keys(mut schema: Value, fits: impl Fn(&str) -> bool) -> Value {
    each(&mut schema, &mut |schema| {
        let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
        let before = properties.len();
        properties.retain(|name, _| fits(name));
        if properties.len() == before {
            return;
        }
        schema.remove("additionalProperties");
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required.retain(|name| name.as_str().is_some_and(&fits));
        }
    });
    schema
}

/// Puts what all branches say of properties at the top.
fn fold(schema: &mut JsonObject) {
    let mut branches = Vec::new();
    for word in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(several)) = schema.get(word) {
            branches.extend(several.iter().cloned().map(|branch| (word == "allOf", branch)));
        }
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#')) {
        branches.extend(Value::Object(schema.clone()).pointer(target).cloned().map(|branch| (true, branch)));
    }
    let mut is_closed = true;
    for (always, branch) in branches {
        let Value::Object(mut branch) = branch else { continue };
        is_closed = false;
        add_properties(schema, &mut branch);
        if always && let Some(Value::Array(more)) = branch.remove("required") {
            require(schema, more);
        }
    }
    if !is_closed {
        schema.remove("additionalProperties");
    }
}

fn add_properties(schema: &mut JsonObject, branch: &mut JsonObject) {
    let Some(Value::Object(more)) = branch.remove("properties") else { return };
    if let Value::Object(known) = schema.entry("properties").or_insert_with(|| json!({})) {
        for (name, value) in more {
            known.entry(name).or_insert(value);
        }
    }
}

fn require(schema: &mut JsonObject, more: Vec<Value>) {
    let mut required = match schema.remove("required") {
        Some(Value::Array(required)) => required,
        _ => Vec::new(),
    };
    for name in more {
        if !required.contains(&name) {
            required.push(name);
        }
    }
    schema.insert("required".to_owned(), Value::Array(required));
}

/// Whether `type` names this kind, alone or among others.
pub(super) fn names(kind: &Value, wanted: &str) -> bool {
    kind == wanted || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == wanted))
}

/// Goes through all schemas in a schema, the inner ones first. What is no object, `true` or `false`, becomes one.
fn each(schema: &mut Value, change: &mut impl FnMut(&mut JsonObject)) {
    match schema {
        Value::Bool(_) => *schema = json!({}),
        Value::Object(members) => {
            for (word, inner) in members.iter_mut() {
                match inner {
                    // There, every provider takes them as they are.
                    Value::Bool(_) if word.ends_with("Properties") => {}
                    inner if ONE.contains(&word.as_str()) => each(inner, change),
                    Value::Array(list) if LIST.contains(&word.as_str()) => {
                        list.iter_mut().for_each(|inner| each(inner, change));
                    }
                    Value::Object(named) if NAMED.contains(&word.as_str()) => {
                        named.values_mut().for_each(|inner| each(inner, change));
                    }
                    _ => {}
                }
            }
            change(members);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::face::tools::tests::{any_schema, input};
    use proptest::prelude::*;

    /// Whatever providers were seen to refuse.
    fn is_fine(schema: &Value, at_top: bool) -> bool {
        let Value::Object(members) = schema else { return false };
        let is_array = members.get("type").is_some_and(|kind| names(kind, "array"));
        let here = !at_top
            || (members["type"] == "object"
                && members["properties"].is_object()
                && !NOT_AT_TOP.iter().any(|word| members.contains_key(*word)));
        let required: Vec<_> = members.get("required").and_then(Value::as_array).into_iter().flatten().collect();
        let repeats = required.iter().enumerate().any(|(at, name)| required[..at].contains(name));
        let inner = members.iter().all(|(word, inner)| match inner {
            Value::Bool(_) if word.ends_with("Properties") => true,
            inner if ONE.contains(&word.as_str()) => is_fine(inner, false),
            Value::Array(list) if LIST.contains(&word.as_str()) => list.iter().all(|inner| is_fine(inner, false)),
            Value::Object(named) if NAMED.contains(&word.as_str()) => named.values().all(|inner| is_fine(inner, false)),
            _ => true,
        });
        here && inner && !repeats && (!is_array || members.get("items").is_some_and(Value::is_object))
    }

    proptest! {
        #[test]
        fn every_schema_becomes_one_of_a_plain_object(schema in any_schema()) {
            let plain = object(input(&schema));
            prop_assert!(is_fine(&plain, true), "{schema}: {plain}");
            let keyed = with_keys(plain, |name| name.len() == 1 && name.is_ascii());
            prop_assert!(is_fine(&keyed, true), "{schema}: {keyed}");
        }
    }

    #[test]
    fn choices_at_the_top_are_put_together() {
        let schema = json!({
            "type": "object", "required": ["a"], "additionalProperties": false, "properties": { "a": true },
            "oneOf": [{ "properties": { "b": { "type": "array" } }, "required": ["b"] }, { "required": ["a"] }],
            "allOf": [{ "properties": { "c": { "type": "string" } }, "required": ["c", "a"] }],
        });
        let plain = json!({
            "type": "object", "required": ["a", "c"],
            "properties": { "a": {}, "b": { "type": "array", "items": {} }, "c": { "type": "string" } },
        });
        assert_eq!(object(input(&schema)), plain);
    }

    #[test]
    fn a_property_whose_name_does_not_fit_is_not_shown_and_still_taken() {
        let schema = json!({
            "type": "object", "required": ["né", "a"], "additionalProperties": false,
            "properties": { "né": {}, "a": {} },
        });
        let shown = json!({ "type": "object", "required": ["a"], "properties": { "a": {} } });
        assert_eq!(with_keys(object(input(&schema)), str::is_ascii), shown);
    }
}
