//! What holds for all schemas and values: nothing panics, the bounds bound, and what is not
//! refused is answered as the validator alone would answer it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jsonschema::{Keyword, ValidationError, Validator};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::model::Code;

use super::bounds::Bounds;
use super::cost::{self, Purpose};
use super::graph::Graph;
use super::places::Places;
use super::{Checker, corpus, normalise, split};

/// A word that means something in a schema, or a name that occurs in values.
#[rustfmt::skip]
fn word() -> impl Strategy<Value = String> {
    let words = [
        "type", "properties", "items", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref", "$id", "id",
        "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$defs", "definitions",
        "$schema", "enum", "const", "required", "pattern", "patternProperties", "additionalProperties",
        "unevaluatedProperties", "unevaluatedItems", "prefixItems", "contains", "propertyNames", "dependentSchemas",
        "dependencies", "format", "uniqueItems", "title", "default", "a", "b", "kind", "input", "output", "string",
        "object", "array", "null", "integer", "#", "#/a", "#/$defs/a", "#a", "#/a/b", "b#", "a/b",
        "http://x.example/a", "urn:x:y", "http://json-schema.org/draft-07/schema#", "~1", "%25", "//", "?", "^a",
        "(?!a)b*", "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema#/$defs", "",
    ];
    prop::sample::select(words.map(String::from).to_vec())
}

/// JSON of such words: most of it almost a schema.
fn wordy() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => word().prop_map(Value::from), 2 => any::<bool>().prop_map(Value::from),
        1 => (-3..9).prop_map(Value::from), 1 => Just(Value::Null), 1 => any::<f64>().prop_map(|number| json!(number)),
    ];
    leaf.prop_recursive(
        5,
        60,
        6,
        |inner| prop_oneof![1 => vec(inner.clone(), 0..4).prop_map(Value::Array), 5 => members(word(), inner)],
    )
}

fn members(name: impl Strategy<Value = String>, value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    vec((name, value), 0..6).prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// A JSON Schema in which `x-count` stands in each subschema, with references that recur.
fn schema() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(vec!["a", "b", "kind"]).prop_map(String::from);
    let leaf = prop_oneof![
        4 => prop::sample::select(vec!["#", "#/$defs/a", "#/$defs/b", "#/$defs/c"]).prop_map(|to| json!({ "$ref": to })),
        1 => Just(json!(true)), 1 => Just(json!(false)), 1 => Just(json!({ "type": "integer" })),
        1 => Just(json!({ "const": "k" })), 1 => Just(json!({ "enum": ["k", 1, null] })), 1 => Just(json!({ "pattern": "^k" })),
        1 => Just(json!({ "minProperties": 1 })), 1 => Just(json!({ "type": ["object", "null"] })),
    ];
    let schema = leaf.prop_recursive(4, 30, 4, move |inner| {
        let list = || vec(inner.clone(), 1..5).prop_map(Value::Array);
        let map = || members(name(), inner.clone());
        let kinds = vec((prop::sample::select(vec!["k", "l", "m"]), inner.clone()), 3..5).prop_map(|branches| {
            let branch = |(kind, schema)| json!({ "properties": { "kind": { "const": kind }, "a": schema }, "required": ["kind"] });
            json!({ "anyOf": branches.into_iter().map(branch).collect::<Vec<_>>() })
        });
        let one = |keyword: &'static str, value: BoxedStrategy<Value>| value.prop_map(move |value| json!({ keyword: value })).boxed();
        let single = prop::sample::select(vec![
            "not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "propertyNames", "items", "contains", "unevaluatedItems",
        ]);
        let part = prop_oneof![
            one("properties", map().boxed()), one("patternProperties", map().boxed()), one("dependentSchemas", map().boxed()),
            one("allOf", list().boxed()), one("anyOf", list().boxed()), one("oneOf", list().boxed()), one("prefixItems", list().boxed()),
            (single, inner.clone()).prop_map(|(keyword, schema)| json!({ keyword: schema })), kinds,
            Just(json!({ "required": ["a"] })), Just(json!({ "uniqueItems": true })),
        ];
        vec(part, 1..4).prop_map(|parts| {
            Value::Object(parts.into_iter().flat_map(|part| part.as_object().cloned().unwrap_or_default()).collect())
        })
    });
    (schema.clone(), vec(schema, 3)).prop_map(|(root, defs)| {
        let mut root = if let Value::Object(root) = root { root } else { Map::new() };
        root.insert("$defs".into(), json!({ "a": defs[0], "b": defs[1], "c": defs[2] }));
        counting(Value::Object(root))
    })
}

/// Puts `x-count` into each subschema.
fn counting(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(counting).collect(),
        Value::Object(members) => {
            let mut members: Map<_, _> = members.into_iter().map(|(name, member)| (name, counting(member))).collect();
            let is_map = members.keys().any(|name| matches!(name.as_str(), "a" | "b" | "c" | "kind"));
            if !is_map && !members.is_empty() {
                members.insert("x-count".into(), json!(true));
            }
            Value::Object(members)
        }
        other => other,
    }
}

fn value() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["a", "a", "a", "b", "kind"]).prop_map(String::from);
    let leaf = prop_oneof![Just(json!("k")), Just(json!(1)), Just(Value::Null), Just(json!({})), Just(json!([]))];
    leaf.prop_recursive(8, 40, 3, move |inner| {
        prop_oneof![1 => vec(inner.clone(), 0..4).prop_map(Value::Array), 3 => members(name.clone(), inner)]
    })
}

/// Counts how often the subschemas are applied.
fn counted(schema: &Value) -> (Validator, Arc<AtomicU64>) {
    struct Count(Arc<AtomicU64>);
    impl<'i> Keyword<'i> for Count {
        fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn is_valid(&self, _: &'i Value) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            true
        }
    }
    let count = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&count);
    let options =
        jsonschema::options().with_keyword("x-count", move |_, _, _| Ok(Box::new(Count(Arc::clone(&shared)))));
    (options.build(schema).unwrap(), count)
}

/// Every place in `value`, as a JSON pointer.
fn places(value: &Value) -> Vec<String> {
    let places = Places::of(value).unwrap();
    let mut open = vec![value];
    let mut found = Vec::new();
    while let Some(value) = open.pop() {
        found.extend(places.pointer(value).map(String::from));
        open.extend(value.as_array().into_iter().flatten().chain(value.as_object().into_iter().flat_map(Map::values)));
    }
    found
}

/// The schema of a real tool, with one part of it replaced.
fn mutated() -> impl Strategy<Value = Value> {
    let schemas: Vec<Value> = corpus::of_tools().into_iter().map(|(schema, ..)| schema).collect();
    let other = || prop_oneof![wordy(), schema()];
    (prop::sample::select(schemas), any::<prop::sample::Index>(), any::<prop::sample::Index>(), other(), any::<bool>())
        .prop_map(|(mut schema, at, from, other, copy)| {
            let places = places(&schema);
            let part =
                if copy { schema.pointer(&places[from.index(places.len())]).cloned().unwrap_or(other) } else { other };
            if let Some(place) = schema.pointer_mut(&places[at.index(places.len())]) {
                *place = part;
            }
            schema
        })
}

fn never_panics(schema: &Value, value: &Value) {
    match Checker::compile(schema) {
        Ok(checker) => drop(checker.check(value)),
        Err(error) => assert_eq!(error.code, Code::InvalidManifest, "{schema}: {error:?}"),
    }
}

proptest! {
    #[test]
    fn no_json_makes_the_compiler_panic(schema in wordy(), value in value()) {
        never_panics(&schema, &value);
    }

    #[test]
    fn no_change_of_a_real_schema_makes_the_compiler_panic(schema in mutated(), value in value()) {
        never_panics(&schema, &value);
    }

    #[test]
    fn what_is_not_refused_is_answered_as_by_the_validator_alone(schema in schema(), value in value()) {
        if let Ok(checker) = Checker::compile(&schema) {
            let alone = || jsonschema::options().build(&schema).unwrap().is_valid(&value);
            match checker.check(&value) {
                Ok(()) => prop_assert!(alone()),
                Err(failures) if failures[0].detail.contains("steps") => {}
                // A fault of the validator, in a few of 100,000.
                Err(failures) if failures[0].detail.contains("cannot be checked") => {}
                Err(failures) => {
                    prop_assert!(!alone());
                    prop_assert!(failures.iter().all(|failure| value.pointer(&failure.pointer).is_some()), "{:?}", failures);
                }
            }
        }
    }

    #[test]
    fn a_check_takes_no_more_steps_than_counted(schema in schema(), value in value()) {
        let places = Places::of(&schema).unwrap();
        let Ok(graph) = Graph::read(&places) else { return Ok(()) };
        let Ok(bounds) = Bounds::of(&graph) else { return Ok(()) };
        let (validator, count) = counted(&schema);
        if let Some(cost) = cost::count(&graph, &bounds, &value, Purpose::Verdict) {
            if catch_unwind(AssertUnwindSafe(|| validator.is_valid(&value))).is_err() {
                return Ok(());
            }
            let taken = count.swap(0, Ordering::Relaxed);
            prop_assert!(taken <= cost.steps, "{} steps, {} counted", taken, cost.steps);
        }
        if let Some(cost) = cost::count(&graph, &bounds, &value, Purpose::Failures) {
            if catch_unwind(AssertUnwindSafe(|| validator.iter_errors(&value).count())).is_err() {
                return Ok(());
            }
            let (taken, levels) = (count.swap(0, Ordering::Relaxed), cost::size(&value).unwrap().depth + 2);
            prop_assert!(taken <= cost.steps * levels * 2, "{} steps, {} counted", taken, cost.steps);
        }
    }

    #[test]
    fn shorthands_are_mended_once_and_schemas_not_at_all(loose in wordy(), schema in schema()) {
        if let Ok(mended) = normalise(loose.clone()).and_then(|mended| Checker::compile(&mended).map(|_| mended)) {
            prop_assert_eq!(&normalise(mended.clone()).unwrap(), &mended);
        }
        let _ = split(loose);
        prop_assert_eq!(normalise(schema.clone()).unwrap(), schema);
    }
}
