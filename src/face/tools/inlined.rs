//! JSON Schemas as Gemini takes them: the schemas of OpenAPI 3.0 in part, without references. What cannot be said
//! is left out, and the host checks the arguments against the skill's own schema.

use serde_json::{Value, json};

use super::{JsonObject, plain};

/// Deepest nesting.
const MAX_DEPTH: usize = 12;
/// Most schemas in one: a small one with references can stand for a huge one.
const MAX_SCHEMAS: usize = 1000;
/// Words that mean the same there, for each type.
const KEPT: [(&str, &[&str]); 4] = [
    ("array", &["minItems", "maxItems"]),
    ("string", &["minLength", "maxLength", "pattern"]),
    ("integer", &["minimum", "maximum"]),
    ("number", &["minimum", "maximum"]),
];

/// Writes a schema without references.
pub(super) struct Inliner<'a> {
    root: &'a Value,
    left: usize,
}

impl Inliner<'_> {
    /// The parameters of a function, if it has any.
    pub(super) fn parameters(input: &JsonObject) -> Option<Value> {
        let root = plain::object(input.clone());
        let whole = Value::Object(input.clone());
        let written = Inliner { root: &whole, left: MAX_SCHEMAS }.schema(&root, 0)?;
        written.get("properties")?;
        Some(written)
    }

    /// Nothing for what nothing fits, and for what lies too deep.
    fn schema(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        if depth > MAX_DEPTH {
            return None;
        }
        let schema = self.resolved(schema)?;
        let Value::Object(members) = schema else { return (schema == &json!(true)).then(anything) };
        let mut written = match self.choice(members, depth) {
            Some(choice) => choice?,
            None => self.of_type(members, depth)?,
        };
        if let Some(description) = members.get("description").filter(|text| text.is_string()) {
            written["description"] = description.clone();
        }
        Some(written)
    }

    /// What a schema refers to, or itself.
    fn resolved<'s>(&self, mut schema: &'s Value) -> Option<&'s Value>
    where
        Self: 's,
    {
        for _ in 0..MAX_DEPTH {
            let Some(target) = schema.get("$ref") else { return Some(schema) };
            schema = self.root.pointer(target.as_str()?.strip_prefix('#')?)?;
        }
        None
    }

    /// What several schemas or types allow; nothing where there is no choice.
    fn choice(&mut self, members: &JsonObject, depth: usize) -> Option<Option<Value>> {
        let several = ["anyOf", "oneOf"].iter().find_map(|word| members.get(*word)?.as_array());
        let types = members.get("type").and_then(Value::as_array);
        let (branches, nullable): (Vec<Value>, bool) = match (several, types) {
            (Some(branches), _) => {
                let (null, other): (Vec<_>, Vec<_>) = branches.iter().partition(|branch| branch["type"] == "null");
                (other.into_iter().cloned().collect(), !null.is_empty())
            }
            (None, Some(types)) => {
                let (null, other): (Vec<_>, Vec<_>) = types.iter().partition(|kind| *kind == "null");
                let of_type = |kind: &Value| {
                    let mut members = members.clone();
                    members.insert("type".to_owned(), kind.clone());
                    Value::Object(members)
                };
                (other.into_iter().map(of_type).collect(), !null.is_empty())
            }
            (None, None) => return None,
        };
        let mut written: Vec<_> = branches.iter().filter_map(|branch| self.schema(branch, depth + 1)).collect();
        Some(match written.len() {
            0 => None,
            1 => written.pop().map(|mut only| {
                if nullable {
                    only["nullable"] = json!(true);
                }
                only
            }),
            // Nothing else may stand beside it.
            _ => Some(json!({ "anyOf": written })),
        })
    }

    fn of_type(&mut self, members: &JsonObject, depth: usize) -> Option<Value> {
        let kind = kind(members);
        let mut written = match kind {
            "object" => self.object(members, depth),
            "array" => json!({ "type": kind, "items": self.items(members, depth) }),
            "string" | "integer" | "number" | "boolean" => json!({ "type": kind }),
            "null" => return None,
            _ => return Some(anything()),
        };
        let kept = KEPT.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, words)| words);
        for word in kept {
            if let Some(value) = members.get(*word) {
                written[*word] = value.clone();
            }
        }
        if kind == "string"
            && let Some(values) = strings(members)
        {
            written["enum"] = values;
        }
        Some(written)
    }

    fn object(&mut self, members: &JsonObject, depth: usize) -> Value {
        let required = members.get("required").and_then(Value::as_array);
        let mut properties = JsonObject::new();
        for (name, schema) in members.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let is_required = required.is_some_and(|required| required.iter().any(|one| one == name));
            let written = self.schema(schema, depth + 1).or_else(|| is_required.then(anything));
            properties.extend(written.map(|written| (name.clone(), written)));
        }
        let mut written = json!({ "type": "object" });
        if properties.is_empty() {
            return written;
        }
        let is_there = |name: &&Value| name.as_str().is_some_and(|name| properties.contains_key(name));
        let required: Vec<_> = required.into_iter().flatten().filter(is_there).cloned().collect();
        if !required.is_empty() {
            written["required"] = json!(required);
        }
        written["properties"] = Value::Object(properties);
        written
    }

    fn items(&mut self, members: &JsonObject, depth: usize) -> Value {
        let first = members.get("prefixItems").and_then(Value::as_array);
        let mut written: Vec<Value> = Vec::new();
        for item in first.into_iter().flatten().chain(members.get("items").filter(|items| items.is_object())) {
            let item = self.schema(item, depth + 1);
            written.extend(item.filter(|item| !written.contains(item)));
        }
        match written.len() {
            0 => anything(),
            1 => written.remove(0),
            _ => json!({ "anyOf": written }),
        }
    }
}

/// For what has no type there: a text is one of all values.
fn anything() -> Value {
    json!({ "type": "string" })
}

/// The one type of what a schema allows, as far as it shows.
fn kind(members: &JsonObject) -> &str {
    if let Some(kind) = members.get("type").and_then(Value::as_str) {
        return kind;
    }
    let value = members.get("const").or_else(|| members.get("enum")?.get(0));
    match value {
        Some(Value::String(_)) => "string",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(number)) if number.is_f64() => "number",
        Some(Value::Number(_)) => "integer",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
        Some(Value::Null) => "null",
        None if members.contains_key("properties") => "object",
        None if members.contains_key("items") || members.contains_key("prefixItems") => "array",
        None => "",
    }
}

/// The texts that a schema allows, where it lists them.
fn strings(members: &JsonObject) -> Option<Value> {
    let one = members.get("const").map(|value| vec![value.clone()]);
    let listed = one.or_else(|| members.get("enum")?.as_array().cloned())?;
    let texts: Vec<Value> =
        listed.into_iter().filter(|value| value.as_str().is_some_and(|text| !text.is_empty())).collect();
    (!texts.is_empty()).then_some(Value::Array(texts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::face::tools::tests::{any_schema, input};
    use proptest::prelude::*;

    /// All that the provider knows.
    fn is_fine(schema: &Value) -> bool {
        let Value::Object(members) = schema else { return false };
        if let Some(any) = members.get("anyOf") {
            let alone = members.keys().all(|word| word == "anyOf" || word == "description");
            return alone && any.as_array().is_some_and(|any| any.len() > 1 && any.iter().all(is_fine));
        }
        let known = ["type", "description", "nullable", "enum", "items", "properties", "required"];
        let kind = members["type"].as_str().unwrap_or_default();
        let kept = KEPT.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, words)| words);
        members.keys().all(|word| known.contains(&word.as_str()) || kept.contains(&word.as_str()))
            && ["object", "array", "string", "integer", "number", "boolean"].contains(&kind)
            && (kind != "array" || is_fine(&members["items"]))
            && members.get("enum").is_none_or(|values| {
                kind == "string"
                    && values.as_array().is_some_and(|values| !values.is_empty() && values.iter().all(Value::is_string))
            })
            && members.get("properties").is_none_or(|properties| {
                properties.as_object().is_some_and(|all| !all.is_empty() && all.values().all(is_fine))
            })
            && members
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .all(|name| name.as_str().is_some_and(|name| members["properties"].get(name).is_some()))
    }

    proptest! {
        #[test]
        fn every_schema_becomes_one_that_the_provider_knows(schema in any_schema()) {
            if let Some(written) = Inliner::parameters(&input(&schema)) {
                prop_assert!(is_fine(&written) && written["type"] == "object", "{schema}: {written}");
            }
        }
    }

    #[test]
    fn references_are_written_out_as_far_as_there_is_room() {
        let tree = json!({
            "type": "object", "required": ["name"],
            "properties": { "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#" } } },
        });
        let written = Inliner::parameters(&input(&tree)).unwrap();
        assert!(is_fine(&written), "{written}");
        assert_eq!(written["properties"]["children"]["items"]["properties"]["name"], json!({ "type": "string" }));
        let level = |n: usize| json!({ "type": "object", "properties": { "a": { "$ref": format!("#/$defs/{n}") }, "b": { "$ref": format!("#/$defs/{n}") } } });
        let defs: JsonObject = (0..40).map(|n| (n.to_string(), level(n + 1))).collect();
        let bomb = json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/0" } }, "$defs": defs });
        let written = Inliner::parameters(&input(&bomb)).unwrap();
        assert!(is_fine(&written) && written.to_string().len() < 100_000);
    }

    #[test]
    fn what_has_no_word_there_is_said_as_well_as_it_can_be() {
        for (schema, wanted) in [
            (json!({ "type": ["string", "null"], "format": "uuid" }), json!({ "type": "string", "nullable": true })),
            (json!({ "enum": ["a", "b"] }), json!({ "type": "string", "enum": ["a", "b"] })),
            (json!({ "enum": [1, 2] }), json!({ "type": "integer" })),
            (json!({ "const": "a" }), json!({ "type": "string", "enum": ["a"] })),
            (json!(true), json!({ "type": "string" })),
            (
                json!({ "prefixItems": [{ "type": "string" }, { "type": "number" }], "minItems": 2 }),
                json!({ "type": "array", "minItems": 2, "items": { "anyOf": [{ "type": "string" }, { "type": "number" }] } }),
            ),
            (
                json!({ "oneOf": [{ "type": "null" }, { "type": "integer", "minimum": 0 }], "description": "n" }),
                json!({ "type": "integer", "minimum": 0, "nullable": true, "description": "n" }),
            ),
        ] {
            let written = Inliner::parameters(&input(&json!({ "type": "object", "properties": { "x": schema } })));
            assert_eq!(written.unwrap()["properties"]["x"], wanted, "{schema}");
        }
        assert_eq!(Inliner::parameters(&input(&json!({ "type": "object", "properties": {} }))), None);
    }
}
