//! JSON Schemas as models' tools have them: the input of a tool is an object, always.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::JsonObject;

/// The one argument of a tool whose skill takes something that is no object.
pub(in crate::face) const WRAPPED: &str = "value";

/// Words under which there are schemas by names of the author's.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Words under which there are values, and no schemas.
const VALUES: [&str; 4] = ["const", "default", "enum", "examples"];

/// Whether what this schema describes has to be wrapped to be the arguments of a tool.
pub(in crate::face) fn is_wrapped(schema: Option<&Value>) -> bool {
    schema.is_some_and(|schema| !fits(schema))
}

/// The input schema of a tool.
pub(in crate::face) fn input(schema: Option<&Value>) -> JsonObject {
    match schema {
        None => any_object(),
        Some(schema) if fits(schema) => as_object(schema).unwrap_or_else(any_object),
        Some(schema) => wrapped(schema),
    }
}

/// The output schema of a tool, where the skill gives objects.
pub(in crate::face) fn output(schema: Option<&Value>) -> Option<JsonObject> {
    let schema = schema?.as_object()?;
    (schema.get("type").is_some_and(|kind| kind == "object")).then(|| schema.clone())
}

/// Whether the schema describes objects, among others.
fn fits(schema: &Value) -> bool {
    let schema = match schema {
        Value::Bool(anything) => return *anything,
        Value::Object(schema) => schema,
        _ => return false,
    };
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => false,
        // What else there is may allow no object at all.
        None => !["$ref", "$dynamicRef", "allOf", "anyOf", "const", "enum", "if", "not", "oneOf"]
            .iter()
            .any(|word| schema.contains_key(*word)),
    }
}

/// The same schema, for objects alone: arguments are nothing else.
fn as_object(schema: &Value) -> Option<JsonObject> {
    let mut schema = schema.as_object()?.clone();
    schema.insert("type".to_owned(), Value::from("object"));
    Some(schema)
}

fn any_object() -> JsonObject {
    JsonObject::from_iter([("type".to_owned(), Value::from("object"))])
}

/// An object with the one property that the schema describes.
fn wrapped(schema: &Value) -> JsonObject {
    let mut inner = schema.clone();
    let dialect = inner.as_object_mut().and_then(|inner| inner.remove("$schema"));
    // In a resource of its own, references stay where they were.
    if inner.get("$id").is_none() {
        move_references(&mut inner, false);
    }
    let mut outer = Map::new();
    outer.extend(dialect.map(|dialect| ("$schema".to_owned(), dialect)));
    outer.insert("type".to_owned(), json!("object"));
    outer.insert("properties".to_owned(), json!({ WRAPPED: inner }));
    outer.insert("required".to_owned(), json!([WRAPPED]));
    outer.insert("additionalProperties".to_owned(), json!(false));
    outer
}

/// References to a place in the schema, for its place one level deeper. `are_names` says that
/// the members of this object are schemas by name.
fn move_references(schema: &mut Value, are_names: bool) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| move_references(item, false)),
        Value::Object(members) => {
            for (word, value) in members {
                match value {
                    Value::String(target) if !are_names && is_reference(word) => {
                        if let Some(place) = moved(target) {
                            *target = place.into_owned();
                        }
                    }
                    _ if !are_names && VALUES.contains(&word.as_str()) => {}
                    value => move_references(value, !are_names && NAMED.contains(&word.as_str())),
                }
            }
        }
        _ => {}
    }
}

fn is_reference(word: &str) -> bool {
    matches!(word, "$ref" | "$dynamicRef")
}

/// Where a pointer leads after the move; nothing for anchors and other resources.
fn moved(target: &str) -> Option<Cow<'static, str>> {
    let pointer = target.strip_prefix('#')?;
    (pointer.is_empty() || pointer.starts_with('/')).then(|| format!("#/properties/{WRAPPED}{pointer}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Checker;

    #[test]
    fn every_input_schema_is_one_for_objects_and_takes_what_the_skill_takes() {
        for (schema, good, bad) in [
            (json!({ "type": "object", "required": ["a"] }), json!({ "a": 1 }), json!({})),
            (json!({ "properties": { "a": { "type": "string" } } }), json!({ "a": "x" }), json!({ "a": 1 })),
            (json!({ "type": ["object", "null"], "maxProperties": 1 }), json!({}), json!({ "a": 1, "b": 2 })),
            (json!({ "type": "string" }), json!({ "value": "x" }), json!({ "value": 1 })),
            (json!({ "enum": [1, 2] }), json!({ "value": 2 }), json!({ "value": 3 })),
            (json!(false), json!({ "x": 1, "value": 1 }), json!({})),
            (
                json!({ "$ref": "#/$defs/tree", "$defs": { "tree": { "type": "array", "items": { "$ref": "#/$defs/tree" } } } }),
                json!({ "value": [[], [[]]] }),
                json!({ "value": [1] }),
            ),
            (
                json!({ "type": "array", "items": { "anyOf": [{ "type": "null" }, { "$ref": "#" }] } }),
                json!({ "value": [null, [null]] }),
                json!({ "value": [2] }),
            ),
            (
                json!({ "type": "array", "items": { "properties": { "$ref": { "const": { "$ref": "#" } } } } }),
                json!({ "value": [{ "$ref": { "$ref": "#" } }] }),
                json!({ "value": [{ "$ref": { "$ref": "#/properties/value" } }] }),
            ),
        ] {
            let tool = Value::Object(input(Some(&schema)));
            assert_eq!(tool["type"], "object", "{tool}");
            let checker = Checker::compile(&tool).unwrap();
            if schema != json!(false) {
                assert!(checker.check(&good).is_ok(), "{tool}: {good}");
            }
            assert!(checker.check(&bad).is_err(), "{tool}: {bad}");
        }
        assert_eq!(Value::Object(input(None)), json!({ "type": "object" }));
        assert_eq!(Value::Object(input(Some(&json!(true)))), json!({ "type": "object" }));
    }

    #[test]
    fn only_what_gives_objects_says_what_it_gives() {
        assert!(output(Some(&json!({ "type": "object" }))).is_some());
        for other in [json!({ "type": "array" }), json!({ "type": ["object", "null"] }), json!({}), json!(true)] {
            assert_eq!(output(Some(&other)), None, "{other}");
        }
        assert_eq!(output(None), None);
    }
}
