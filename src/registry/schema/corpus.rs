//! Schemas as they are met: of real tools, and wrong in the ways that people and programs get
//! them wrong.

use serde_json::{Value, json};

use crate::model::Code;

use super::{Checker, normalise};

/// A schema, a value it accepts and one it refuses.
type Good = (Value, Value, Value);

/// Input schemas of MCP servers in wide use (file system, search, git, browser, issue trackers,
/// databases, mail), as their generators (zod, pydantic, TypeBox, schemars) write them.
#[rustfmt::skip]
pub(super) fn of_tools() -> Vec<Good> {
    vec![
        (json!({ "type": "object", "properties": { "path": { "type": "string" }, "tail": { "type": "number", "description": "If provided, returns only the last N lines of the file" } }, "required": ["path"], "additionalProperties": false, "$schema": "http://json-schema.org/draft-07/schema#" }),
            json!({ "path": "/a", "tail": 3 }), json!({ "path": "/a", "head": 3 })),
        (json!({ "type": "object", "properties": { "paths": { "type": "array", "items": { "type": "string" }, "minItems": 1 } }, "required": ["paths"] }),
            json!({ "paths": ["a"] }), json!({ "paths": [] })),
        (json!({ "type": "object", "properties": { "edits": { "type": "array", "items": { "type": "object", "properties": { "oldText": { "type": "string" }, "newText": { "type": "string" } }, "required": ["oldText", "newText"], "additionalProperties": false } }, "dryRun": { "type": "boolean", "default": false } }, "required": ["edits"] }),
            json!({ "edits": [{ "oldText": "a", "newText": "b" }] }), json!({ "edits": [{ "oldText": "a" }] })),
        (json!({ "type": "object", "properties": { "url": { "type": "string", "format": "uri", "minLength": 1 }, "max_length": { "default": 5000, "exclusiveMaximum": 1000000, "exclusiveMinimum": 0, "type": "integer" }, "raw": { "default": false, "type": "boolean" } }, "required": ["url"], "title": "Fetch" }),
            json!({ "url": "https://a.example", "max_length": 10 }), json!({ "url": "https://a.example", "max_length": 0 })),
        (json!({ "type": "object", "properties": { "query": { "type": "string", "maxLength": 400 }, "count": { "type": "number", "minimum": 1, "maximum": 20, "default": 10 } }, "required": ["query"] }),
            json!({ "query": "x", "count": 20 }), json!({ "query": "x", "count": 21 })),
        (json!({ "properties": { "repo_path": { "title": "Repo Path", "type": "string" }, "files": { "items": { "type": "string" }, "title": "Files", "type": "array" } }, "required": ["repo_path", "files"], "title": "GitAdd", "type": "object" }),
            json!({ "repo_path": ".", "files": ["a"] }), json!({ "repo_path": "." })),
        (json!({ "properties": { "max_count": { "anyOf": [{ "type": "integer" }, { "type": "null" }], "default": null }, "since": { "anyOf": [{ "type": "string", "format": "date-time" }, { "type": "null" }] } }, "type": "object" }),
            json!({ "max_count": null, "since": "2026-01-01T00:00:00Z" }), json!({ "max_count": "7" })),
        (json!({ "type": "object", "properties": { "thought": { "type": "string" }, "thoughtNumber": { "type": "integer", "minimum": 1 }, "nextThoughtNeeded": { "type": "boolean" } }, "required": ["thought", "nextThoughtNeeded", "thoughtNumber"] }),
            json!({ "thought": "x", "thoughtNumber": 1, "nextThoughtNeeded": false }), json!({ "thought": "x", "thoughtNumber": 0, "nextThoughtNeeded": false })),
        (json!({ "type": "object", "properties": { "state": { "type": "string", "enum": ["open", "closed", "all"] }, "labels": { "type": "array", "items": { "type": "string" }, "uniqueItems": true } } }),
            json!({ "state": "open", "labels": ["a", "b"] }), json!({ "labels": ["a", "a"] })),
        (json!({ "type": "object", "$defs": { "Point": { "type": "object", "properties": { "x": { "type": "number" }, "y": { "type": "number" } }, "required": ["x", "y"] } }, "properties": { "from": { "$ref": "#/$defs/Point" }, "to": { "$ref": "#/$defs/Point" } }, "required": ["from", "to"] }),
            json!({ "from": { "x": 1, "y": 2 }, "to": { "x": 0, "y": 0 } }), json!({ "from": { "x": 1 }, "to": { "x": 0, "y": 0 } })),
        (json!({ "definitions": { "Node": { "type": "object", "properties": { "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#/definitions/Node" } } }, "required": ["name"] } }, "$ref": "#/definitions/Node", "$schema": "http://json-schema.org/draft-07/schema#" }),
            json!({ "name": "a", "children": [{ "name": "b", "children": [] }] }), json!({ "name": "a", "children": [{ "children": [] }] })),
        (json!({ "$id": "T0", "type": "object", "properties": { "id": { "type": "string" }, "nodes": { "type": "array", "items": { "$ref": "T0" } } }, "required": ["id", "nodes"] }),
            json!({ "id": "a", "nodes": [{ "id": "b", "nodes": [] }] }), json!({ "id": "a", "nodes": [{ "id": "b" }] })),
        (json!({ "type": "object", "properties": { "tree": { "$id": "Tree", "anyOf": [{ "type": "null" }, { "type": "object", "properties": { "left": { "$ref": "Tree" }, "right": { "$ref": "Tree" } } }] } } }),
            json!({ "tree": { "left": { "left": null }, "right": null } }), json!({ "tree": { "left": { "left": 1 } } })),
        (json!({ "oneOf": [{ "type": "object", "properties": { "kind": { "const": "text" }, "text": { "type": "string" } }, "required": ["kind", "text"] }, { "type": "object", "properties": { "kind": { "const": "image" }, "data": { "type": "string", "contentEncoding": "base64" } }, "required": ["kind", "data"] }] }),
            json!({ "kind": "image", "data": "AA==" }), json!({ "kind": "image", "text": "x" })),
        (json!({ "type": "object", "properties": { "filter": { "$ref": "#/$defs/filter" } }, "$defs": { "filter": { "anyOf": [{ "type": "object", "properties": { "and": { "type": "array", "items": { "$ref": "#/$defs/filter" } } }, "required": ["and"], "additionalProperties": false }, { "type": "object", "properties": { "or": { "type": "array", "items": { "$ref": "#/$defs/filter" } } }, "required": ["or"], "additionalProperties": false }, { "type": "object", "properties": { "property": { "type": "string" }, "equals": {} }, "required": ["property"], "additionalProperties": false }] } } }),
            json!({ "filter": { "and": [{ "or": [{ "property": "a", "equals": 1 }] }, { "property": "b" }] } }), json!({ "filter": { "and": [{ "or": [{ "equals": 1 }] }] } })),
        (json!({ "type": "object", "additionalProperties": { "type": "string" } }), json!({ "a": "b" }), json!({ "a": 1 })),
        (json!({ "type": "object", "patternProperties": { "^[A-Z_]+$": { "type": "string" } }, "additionalProperties": false }), json!({ "HOME": "x" }), json!({ "home": "x" })),
        (json!({ "type": "object", "propertyNames": { "pattern": "^[a-z][a-z0-9_]*$" }, "minProperties": 1 }), json!({ "a_1": 0 }), json!({ "A": 0 })),
        (json!({ "type": "object", "properties": { "email": { "type": "string", "pattern": "^(?:[A-Za-z0-9_'^&+%\\-]+(?:\\.[A-Za-z0-9_'^&+%\\-]+)*)@(?:[A-Za-z0-9-]+\\.)+[A-Za-z]{2,}$" } } }), json!({ "email": "a@b.example" }), json!({ "email": "a@b" })),
        (json!({ "type": "object", "properties": { "text": { "type": "string", "pattern": "^(?!\\s*$).+" } } }), json!({ "text": " a" }), json!({ "text": "  " })),
        (json!({ "type": "string", "pattern": "^(?=.*[A-Z])(?=.*\\d)[\\s\\S]{8,2048}$" }), json!("Abcdefg1"), json!("abcdefg1")),
        (json!({ "type": "object", "properties": { "page_size": { "type": "integer", "maximum": 100 }, "cursor": { "type": ["string", "null"] } } }), json!({ "cursor": null }), json!({ "cursor": 1 })),
        (json!({ "type": "object", "properties": { "x": { "type": "number" } }, "if": { "required": ["x"] }, "then": { "required": ["y"] }, "else": { "required": ["z"] } }), json!({ "x": 1, "y": 2 }), json!({ "x": 1, "z": 2 })),
        (json!({ "type": "object", "dependentRequired": { "lat": ["lon"] }, "dependentSchemas": { "zoom": { "properties": { "zoom": { "minimum": 1 } } } } }), json!({ "lat": 1, "lon": 2, "zoom": 3 }), json!({ "zoom": 0 })),
        (json!({ "$schema": "http://json-schema.org/draft-04/schema#", "id": "http://a.example/s", "type": "object", "properties": { "n": { "type": "number", "minimum": 0, "exclusiveMinimum": true } } }), json!({ "n": 1 }), json!({ "n": 0 })),
        (json!({ "$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": true, "type": "object", "properties": { "child": { "$recursiveRef": "#" }, "n": { "type": "integer" } } }), json!({ "child": { "child": { "n": 1 } } }), json!({ "child": { "n": "x" } })),
        (json!({ "$dynamicAnchor": "node", "type": "object", "properties": { "next": { "$dynamicRef": "#node" }, "n": { "type": "integer" } } }), json!({ "next": { "next": { "n": 1 } } }), json!({ "next": { "n": "x" } })),
        (json!({ "allOf": [{ "$ref": "#/$defs/base" }], "properties": { "b": true }, "unevaluatedProperties": false, "$defs": { "base": { "type": "object", "properties": { "a": { "type": "string" } } } } }), json!({ "a": "x", "b": 1 }), json!({ "c": 1 })),
        (json!({ "type": "array", "prefixItems": [{ "type": "number" }, { "enum": ["Street", "Avenue"] }], "items": false }), json!([1, "Avenue"]), json!([1, "Avenue", 2])),
        (json!({ "type": "array", "contains": { "const": "main" }, "maxContains": 1 }), json!(["main", 1]), json!(["main", "main"])),
        (json!({ "$schema": "http://json-schema.org/draft-07/schema#", "properties": { "schema": { "$ref": "http://json-schema.org/draft-07/schema#" } } }), json!({ "schema": { "properties": { "a": { "type": "string" } } } }), json!({ "schema": { "properties": { "a": { "type": "text" } } } })),
        (json!({ "type": "object", "properties": { "schema": { "$ref": "https://json-schema.org/draft/2020-12/schema" } } }), json!({ "schema": { "properties": { "a": { "items": { "type": "string" } } } } }), json!({ "schema": { "properties": { "a": { "items": { "type": 1 } } } } })),
        (json!({ "$defs": { "name": { "$anchor": "name", "type": "string", "minLength": 1 } }, "properties": { "name": { "$ref": "#name" } } }), json!({ "name": "a" }), json!({ "name": "" })),
        (json!({ "type": "object", "properties": { "args": { "type": "object", "additionalProperties": true }, "sql": { "type": "string", "maxLength": 100000 }, "params": { "type": "array", "items": { "type": ["string", "number", "boolean", "null"] } } }, "required": ["sql"] }), json!({ "sql": "select 1", "params": [1, null, "a"] }), json!({ "sql": "x", "params": [[]] })),
        (json!({ "type": "object", "properties": { "price": { "type": "number", "multipleOf": 0.01 }, "uuid": { "type": "string", "format": "uuid" } } }), json!({ "price": 1.25 }), json!({ "price": 1.255 })),
        (json!({ "type": "object", "properties": { "message": { "type": "object", "$schema": "http://json-schema.org/draft-07/schema#", "properties": { "to": { "type": "array", "items": { "type": "string" } } } } } }), json!({ "message": { "to": ["a"] } }), json!({ "message": { "to": [1] } })),
        (json!({}), json!(1), Value::Null), (json!(true), json!([]), Value::Null),
    ]
}

/// Schemas that are refused, with where the fault is.
#[rustfmt::skip]
pub(super) fn wrong() -> Vec<(Value, &'static str)> {
    vec![
        (json!(null), ""), (json!(7), ""), (json!("string"), ""), (json!([]), ""), (json!([{ "type": "string" }]), ""),
        (json!({ "type": "strin" }), "/type"), (json!({ "type": "str" }), "/type"), (json!({ "type": "any" }), "/type"),
        (json!({ "type": 1 }), "/type"), (json!({ "type": ["string", "text"] }), "/type"), (json!({ "type": [] }), "/type"),
        (json!({ "type": { "type": "string" } }), "/type"),
        (json!({ "properties": [] }), "/properties"), (json!({ "properties": { "a": "string" } }), "/properties/a"),
        (json!({ "properties": { "a": null } }), "/properties/a"), (json!({ "properties": { "a/b": { "type": 1 } } }), "/properties/a~1b/type"),
        (json!({ "required": true }), "/required"), (json!({ "required": "a" }), "/required"), (json!({ "required": [1] }), "/required/0"),
        (json!({ "properties": { "a": { "required": true } } }), "/properties/a/required"),
        (json!({ "enum": "a" }), "/enum"), (json!({ "items": "string" }), "/items"), (json!({ "items": [{}] }), "/items"),
        (json!({ "anyOf": [] }), "/anyOf"), (json!({ "oneOf": {} }), "/oneOf"), (json!({ "allOf": [1] }), "/allOf/0"), (json!({ "not": 1 }), "/not"),
        (json!({ "minLength": -1 }), "/minLength"), (json!({ "minLength": "1" }), "/minLength"), (json!({ "minimum": "0" }), "/minimum"),
        (json!({ "multipleOf": 0 }), "/multipleOf"), (json!({ "uniqueItems": "yes" }), "/uniqueItems"), (json!({ "exclusiveMinimum": true }), "/exclusiveMinimum"),
        (json!({ "pattern": "(" }), "/pattern"), (json!({ "pattern": "[z-a]" }), "/pattern"), (json!({ "pattern": "*" }), "/pattern"), (json!({ "pattern": 1 }), "/pattern"),
        (json!({ "pattern": "(?=a)\\g<0>" }), "/pattern"), (json!({ "properties": { "a": { "pattern": "x".repeat(1025) } } }), "/properties/a/pattern"),
        (json!({ "patternProperties": { "(": {} } }), "/patternProperties/("), (json!({ "patternProperties": { "(?>a)": {} } }), "/patternProperties/(?>a)"),
        (json!({ "$ref": "https://schema.example/x.json" }), "/$ref"), (json!({ "$ref": "file:///etc/passwd" }), "/$ref"), (json!({ "$ref": "other.json#/a" }), "/$ref"),
        (json!({ "properties": { "a": { "$ref": "#/$defs/none" } } }), "/properties/a/$ref"), (json!({ "$ref": "#none" }), "/$ref"), (json!({ "$ref": 1 }), "/$ref"),
        (json!({ "$ref": "#/title", "title": "x" }), "/$ref"), (json!({ "$ref": "http://[" }), ""), (json!({ "items": { "$dynamicRef": "http://a.example/#x" } }), "/items/$dynamicRef"),
        (json!({ "$schema": "https://schema.example/my-draft" }), "/$schema"), (json!({ "$schema": "http://json-schema.org/draft-03/schema#" }), "/$schema"), (json!({ "$schema": "draft-07" }), "/$schema"),
        (json!({ "properties": { "a": { "$schema": "https://schema.example/x" } } }), "/properties/a/$schema"),
        (json!({ "$id": "http://[" }), "/$id"), (json!({ "properties": { "a": { "$id": "http://[" } } }), ""),
        (json!({ "$ref": "#" }), ""), (json!({ "allOf": [{ "$ref": "#" }] }), ""), (json!({ "not": { "anyOf": [{ "$ref": "#" }] } }), ""),
        (json!({ "items": { "$ref": "#/$defs/a" }, "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "if": { "$ref": "#/$defs/a" } } } }), "/$defs/a"),
    ]
}

#[test]
fn schemas_of_real_tools_are_taken_and_answer_as_they_should() {
    for (schema, accepted, refused) in of_tools() {
        assert_eq!(normalise(schema.clone()).unwrap(), schema, "no shorthand");
        let checker = Checker::compile(&schema).unwrap_or_else(|error| panic!("{schema}: {error:?}"));
        assert_eq!(checker.check(&accepted), Ok(()), "{schema}");
        if !refused.is_null() {
            let failures = checker.check(&refused).expect_err("refused");
            assert!(
                failures.iter().all(|failure| refused.pointer(&failure.pointer).is_some()),
                "{schema}: {failures:?}"
            );
        }
    }
}

#[test]
fn wrong_schemas_are_refused_with_the_place_of_the_fault() {
    let mut misplaced = Vec::new();
    for (schema, pointer) in wrong() {
        let error = Checker::compile(&schema).expect_err(&schema.to_string());
        assert_eq!(error.code, Code::InvalidManifest);
        assert!(error.detail.len() < 300, "{error:?}");
        if error.fields[0].pointer != pointer {
            misplaced.push(format!("{schema}: {error:?}"));
        }
    }
    assert!(misplaced.is_empty(), "{misplaced:#?}");
}
