//! What other hosts accept as a schema, turned into JSON Schema.
//!
//! Three shorthands are in use: a type word where a schema should be (`{"content": "string"}`),
//! a map of properties where an object schema should be (`{"city": {"type": "string"}}`), and
//! `required: true` on a property. Read as JSON Schema they are invalid, or worse, valid and
//! without meaning. None of them is kept; what is JSON Schema already stays as it is.

use serde_json::{Map, Value, json};

use crate::model::{Error, Schemas};

use super::keywords::{Shape, is_type, shape};
use super::{MAX_DEPTH, join, refuse};

/// Tells the pair `{"input": …, "output": …}` from one bare schema, which is the input's, and
/// mends both.
///
/// An object is the pair if it has no other members than these two and each is an object, a
/// boolean or null (which is none).
///
/// # Errors
///
/// As [`normalise`], with pointers into `schema`.
pub(super) fn split(schema: Value) -> Result<Schemas, Error> {
    let mut members = match schema {
        Value::Object(members) if is_pair(&members) => members,
        Value::Null => return Ok(Schemas::default()),
        schema => return Ok(Schemas { input: Some(normalise(schema)?), output: None }),
    };
    let mut part = |name: &str| {
        let part = members.remove(name).filter(|part| !part.is_null());
        part.map(|part| normalise(part).map_err(|error| error.below(&join("", name)))).transpose()
    };
    Ok(Schemas { input: part("input")?, output: part("output")? })
}

/// Whether these members are the pair of [`split`].
pub(super) fn is_pair(members: &Map<String, Value>) -> bool {
    let is_part = |(name, part): (&String, &Value)| {
        matches!(name.as_str(), "input" | "output") && (part.is_object() || part.is_boolean() || part.is_null())
    };
    !members.is_empty() && members.iter().all(is_part)
}

/// Turns the shorthands in `schema` into JSON Schema, at any depth.
///
/// The result may still be no schema that can be used: [`super::Checker::compile`] says so.
///
/// # Errors
///
/// `invalid_manifest` if it is too deep, or a property says `required` where the list of
/// required ones is none.
pub(super) fn normalise(mut schema: Value) -> Result<Value, Error> {
    take_required(&mut schema);
    mend(schema, "", 0)
}

fn mend(schema: Value, pointer: &str, depth: usize) -> Result<Value, Error> {
    if depth > MAX_DEPTH {
        return Err(refuse("", format!("the schema is nested deeper than {MAX_DEPTH} levels")));
    }
    match schema {
        Value::String(word) if is_type(&word) => Ok(json!({ "type": word })),
        Value::Object(members) if is_property_map(&members, depth) => property_map(members, pointer, depth),
        Value::Object(members) => mend_keywords(members, pointer, depth),
        other => Ok(other),
    }
}

/// An object schema from a map of properties. A `title` or `description` among them that is no
/// type word stays what it is.
fn property_map(members: Map<String, Value>, pointer: &str, depth: usize) -> Result<Value, Error> {
    let mut schema = Map::from_iter([(String::from("type"), json!("object"))]);
    let mut properties = Map::new();
    for (name, member) in members {
        let part_of = if reading(&name, &member, depth) == Reading::Note { &mut schema } else { &mut properties };
        part_of.insert(name, member);
    }
    let (properties, required) = mend_properties(properties, pointer, depth)?;
    schema.insert(String::from("properties"), Value::Object(properties));
    require(&mut schema, required, pointer)?;
    Ok(Value::Object(schema))
}

/// A schema with the schemas in its keywords mended.
fn mend_keywords(members: Map<String, Value>, pointer: &str, depth: usize) -> Result<Value, Error> {
    let mut schema = Map::new();
    let mut required = Vec::new();
    for (keyword, value) in members {
        let below = join(pointer, &keyword);
        let value = match (shape(&keyword), value) {
            (Some(Shape::Schemas), Value::Object(properties)) if keyword == "properties" => {
                let (properties, names) = mend_properties(properties, &below, depth + 1)?;
                required = names;
                Value::Object(properties)
            }
            (Some(Shape::Schemas), Value::Object(schemas)) => {
                Value::Object(mend_properties(schemas, &below, depth + 1)?.0)
            }
            (Some(Shape::Schema | Shape::SchemaList), Value::Array(schemas)) => {
                let mended = schemas.into_iter().enumerate().map(|(index, mut schema)| {
                    take_required(&mut schema);
                    mend(schema, &join(&below, &index.to_string()), depth + 2)
                });
                Value::Array(mended.collect::<Result<_, _>>()?)
            }
            (Some(Shape::Schema), mut schema) => {
                take_required(&mut schema);
                mend(schema, &below, depth + 1)?
            }
            (_, other) => other,
        };
        schema.insert(keyword, value);
    }
    require(&mut schema, required, pointer)?;
    Ok(Value::Object(schema))
}

/// Mends each property, and gives the names of those that say they are required.
fn mend_properties(
    properties: Map<String, Value>,
    pointer: &str,
    depth: usize,
) -> Result<(Map<String, Value>, Vec<String>), Error> {
    let mut required = Vec::new();
    let mut mended = Map::new();
    for (name, mut property) in properties {
        if take_required(&mut property) {
            required.push(name.clone());
        }
        let property = mend(property, &join(pointer, &name), depth + 1)?;
        mended.insert(name, property);
    }
    Ok((mended, required))
}

/// Adds `names` to the required ones of `schema`.
fn require(schema: &mut Map<String, Value>, names: Vec<String>, pointer: &str) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let list = schema.entry("required").or_insert_with(|| json!([]));
    let Value::Array(list) = list else {
        return Err(refuse(join(pointer, "required"), "`required` is a list of the names of members"));
    };
    for name in names.into_iter().map(Value::String) {
        if !list.contains(&name) {
            list.push(name);
        }
    }
    Ok(())
}

/// Takes a `required` that is a boolean out of `schema`, and gives it. No draft since 3 has it.
fn take_required(schema: &mut Value) -> bool {
    let Value::Object(members) = schema else { return false };
    if !members.get("required").is_some_and(Value::is_boolean) {
        return false;
    }
    members.shift_remove("required") == Some(Value::Bool(true))
}

/// How a member of an object that stands for a schema can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// As a property only: no keyword, or none with such a value.
    Property,
    /// As a property, or as a keyword with a type word for a text.
    Word,
    /// As a property or as a keyword.
    Either,
    /// As an annotation, which a map of properties may have too.
    Note,
    /// As a keyword, or as nothing known.
    Keyword,
}

/// Whether `members`, `depth` levels deep, are properties and not keywords: all can be read as
/// properties, and at least one in no other way.
fn is_property_map(members: &Map<String, Value>, depth: usize) -> bool {
    let mut evidence = false;
    for (name, member) in members {
        match reading(name, member, depth) {
            Reading::Keyword => return false,
            Reading::Property => evidence = true,
            // As a whole schema `{"title": "string"}` would mean nothing; on a property it may.
            Reading::Word => evidence |= depth == 0,
            Reading::Either | Reading::Note => {}
        }
    }
    evidence
}

fn reading(name: &str, member: &Value, depth: usize) -> Reading {
    let schema_like = depth <= MAX_DEPTH && looks_like_schema(member, depth + 1);
    let shape = shape(name).filter(|shape| shape.fits(member));
    match shape {
        _ if name.starts_with('$') => Reading::Keyword,
        None if schema_like && name.starts_with("x-") => Reading::Either,
        None if schema_like => Reading::Property,
        Some(Shape::Text) if member.as_str().is_some_and(is_type) => Reading::Word,
        Some(Shape::Text) if matches!(name, "title" | "description") => Reading::Note,
        Some(Shape::Schema | Shape::Any) if schema_like && !matches!(name, "additionalProperties" | "const") => {
            Reading::Either
        }
        Some(Shape::Schemas) if member.get("type").is_some_and(|word| Shape::Words.fits(word)) => Reading::Either,
        _ => Reading::Keyword,
    }
}

/// Whether `value` can stand for a property: a type word, an empty object, or an object with
/// something that JSON Schema knows.
fn looks_like_schema(value: &Value, depth: usize) -> bool {
    match value {
        Value::String(word) => is_type(word),
        Value::Object(members) => {
            let is_keyword = |(name, value): (&String, &Value)| {
                shape(name).is_some_and(|shape| shape.fits(value)) || name == "required" && value.is_boolean()
            };
            members.is_empty() || members.iter().any(is_keyword) || is_property_map(members, depth)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(schema: Value) -> Value {
        normalise(schema).unwrap()
    }

    #[test]
    fn a_type_word_is_a_schema_at_any_depth() {
        for (written, meant) in [
            (
                json!({ "content": "string" }),
                json!({ "type": "object", "properties": { "content": { "type": "string" } } }),
            ),
            (json!("string"), json!({ "type": "string" })),
            (
                json!({ "type": "object", "properties": { "a": "integer", "b": { "type": "array", "items": "string" } } }),
                json!({ "type": "object", "properties": {
                    "a": { "type": "integer" }, "b": { "type": "array", "items": { "type": "string" } } } }),
            ),
            (json!({ "anyOf": ["string", "null"] }), json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] })),
            (json!({ "additionalProperties": "number" }), json!({ "additionalProperties": { "type": "number" } })),
            (
                json!({ "title": "string", "pattern": "string" }),
                json!({ "type": "object", "properties": { "title": { "type": "string" }, "pattern": { "type": "string" } } }),
            ),
        ] {
            assert_eq!(mended(written.clone()), meant, "{written}");
        }
    }

    #[test]
    fn a_map_of_properties_is_an_object_schema() {
        for (properties, required) in [
            (json!({ "city": { "type": "string" } }), None),
            (json!({ "type": { "type": "string" }, "name": { "type": "string" } }), None),
            (json!({ "items": { "type": "array" }, "count": { "type": "integer" } }), None),
            (json!({ "properties": { "type": "object" }, "page": { "type": "string" } }), None),
            (json!({ "description": { "type": "string" }, "required": { "type": "boolean" } }), None),
            (json!({ "when": {}, "default": { "description": "what else" } }), None),
            (
                json!({ "q": { "type": "string", "required": true }, "n": { "type": "integer", "required": false } }),
                Some("q"),
            ),
        ] {
            let schema = mended(properties.clone());
            assert_eq!(schema["type"], "object", "{properties}");
            let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&schema["properties"]), names(&properties));
            assert_eq!(schema.get("required"), required.map(|name| json!([name])).as_ref());
        }
        let nested = mended(json!({ "address": { "street": "string", "zip": { "pattern": "^[0-9]+$" } } }));
        assert_eq!(nested["properties"]["address"]["properties"]["street"], json!({ "type": "string" }));
        let noted = mended(json!({ "description": "Weather.", "city": { "type": "string" } }));
        assert_eq!(noted["description"], "Weather.");
        assert_eq!(noted["properties"], json!({ "city": { "type": "string" } }));
    }

    #[test]
    fn what_a_property_requires_moves_to_its_parent() {
        let schema = mended(json!({ "type": "object", "required": ["a"], "properties": {
            "a": { "type": "string", "required": true }, "b": { "required": true, "type": "object",
                "properties": { "c": { "required": true }, "d": { "required": false } } } } }));
        assert_eq!(
            schema,
            json!({ "type": "object", "required": ["a", "b"], "properties": {
            "a": { "type": "string" }, "b": { "type": "object", "required": ["c"],
                "properties": { "c": {}, "d": {} } } } })
        );
        let twice = mended(json!({ "required": true, "type": "object", "properties": { "a": { "required": true } } }));
        assert_eq!(twice, json!({ "type": "object", "properties": { "a": {} }, "required": ["a"] }));
        let error = normalise(json!({ "required": "a", "properties": { "a": { "required": true } } })).unwrap_err();
        assert_eq!(error.fields[0].pointer, "/required");
    }

    #[test]
    fn what_is_a_schema_stays_as_it_is() {
        for schema in [
            json!({}),
            json!(true),
            json!(false),
            json!({ "type": "object" }),
            json!({ "title": "x" }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "string" } } }),
            json!({ "enum": ["string"] }),
            json!({ "const": "string" }),
            json!({ "default": "string" }),
            json!({ "oneOf": [{ "const": "object" }] }),
            json!({ "not": { "type": "null" } }),
            json!({ "items": { "type": "string" } }),
            json!({ "minLength": 3 }),
            json!({ "additionalProperties": { "type": "string" } }),
            json!({ "type": "string", "name": "string" }),
            json!({ "nullable": true }),
            json!({ "discriminator": { "propertyName": "kind" } }),
            json!({ "x-meta": { "type": "string" } }),
            json!({ "example": { "type": "object" } }),
            json!({ "properties": { "a": { "title": "string" } } }),
            json!({ "description": "no more than this" }),
            json!({ "properties": { "required": { "type": "boolean" }, "enum": { "type": "array" } } }),
            json!({ "type": "object", "properties": { "a": { "default": { "b": "string" }, "enum": [{ "c": "null" }] } } }),
            json!({ "definitions": { "a": { "type": "string" } }, "allOf": [{ "$ref": "#/definitions/a" }] }),
            json!({ "dependencies": { "a": ["b"] } }),
            json!({ "unknown": "text" }),
            json!({ "unknown": 1 }),
        ] {
            assert_eq!(mended(schema.clone()), schema);
        }
    }

    #[test]
    fn the_pair_is_told_from_one_schema() {
        let parts = |schema| split(schema).map(|parts| (parts.input, parts.output)).unwrap();
        let text = json!({ "type": "object", "properties": { "content": { "type": "string" } } });
        let pair = json!({ "input": { "content": "string" }, "output": { "result": "string" } });
        assert_eq!(parts(pair).0, Some(text.clone()));
        assert_eq!(parts(json!({ "input": {}, "output": true })), (Some(json!({})), Some(json!(true))));
        assert_eq!(parts(json!({ "output": { "type": "string" } })), (None, Some(json!({ "type": "string" }))));
        assert_eq!(parts(json!({ "input": null })), (None, None));
        assert_eq!(parts(text.clone()), (Some(text), None));
        assert_eq!(parts(json!({})), (Some(json!({})), None));
        let properties = parts(json!({ "input": "string", "output": "string" })).0.unwrap();
        assert_eq!(properties["properties"]["output"], json!({ "type": "string" }));
        let three = parts(json!({ "input": {}, "output": {}, "more": {} })).0.unwrap();
        assert_eq!(three["type"], "object");
        let bad = json!({ "output": { "required": "x", "properties": { "a": { "required": true } } } });
        assert_eq!(split(bad).unwrap_err().fields[0].pointer, "/output/required");
    }
}
