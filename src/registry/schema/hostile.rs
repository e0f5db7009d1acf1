//! Schemas and values made to be costly. Each was seen to cost seconds, gigabytes or the stack
//! when nothing bounds it; the numbers are those of the validator alone, in release.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::model::FieldError;

use super::{COMPILER_STACK_BYTES, Checker, MAX_DEPTH, MAX_IN_PLACE};

/// Most work of one compilation and check: enough for a debug build, too little for what these are
/// made for. Counted is what the processor did for it, so that it matters not what else it does.
const MOST_WORK: Duration = Duration::from_secs(20);

/// Does `work` on a thread of its own, and measures it.
fn bounded<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let measured = || {
        let answer = work();
        // The first number is the time that this thread had a processor, in nanoseconds.
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        let worked = Duration::from_nanos(statistics.split(' ').next().unwrap().parse().unwrap());
        assert!(worked < MOST_WORK, "{worked:?} of work");
        answer
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(COMPILER_STACK_BYTES);
        thread.spawn_scoped(scope, measured).unwrap().join().unwrap()
    })
}

fn defs(count: usize, def: impl Fn(usize) -> Value) -> Value {
    let defs: Map<String, Value> = (0..count).map(|index| (format!("d{index}"), def(index))).collect();
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

fn to(index: usize) -> Value {
    json!({ "$ref": format!("#/$defs/d{index}") })
}

fn nested(levels: usize, member: &str, leaf: Value) -> Value {
    (0..levels).fold(leaf, |inner, _| json!({ member: inner }))
}

fn why_not(schema: &Value) -> String {
    bounded(|| Checker::compile_here(schema)).expect_err("refused").detail
}

fn check(schema: &Value, value: &Value) -> Result<(), Vec<FieldError>> {
    bounded(|| Checker::compile_here(schema).unwrap().check(value))
}

fn is_too_costly(answer: &Result<(), Vec<FieldError>>) -> bool {
    answer.as_ref().is_err_and(|failures| failures[0].detail.contains("steps"))
}

#[test]
fn references_that_multiply_are_refused() {
    let in_place = defs(7, |index| if index == 6 { json!({}) } else { json!({ "allOf": vec![to(index + 1); 8] }) });
    assert!(why_not(&in_place).contains("rules for one place"));
    let down = |index| json!({ "properties": { "a": to(index + 1), "b": to(index + 1) } });
    let below = defs(31, |index| if index == 30 { json!({}) } else { down(index) });
    assert!(why_not(&below).contains("once each `$ref` is followed"));
    let few = defs(9, |index| if index == 8 { json!({}) } else { down(index) });
    assert!(Checker::compile(&few).is_ok());
}

/// 15 levels took 22 s to compile; 20 levels of the other kind 20 s to check `{"z": 1}`.
#[test]
fn looking_for_what_is_unevaluated_does_not_multiply() {
    let parts: Vec<Value> = (0..4_000).map(|index| json!({ "properties": { format!("k{index}"): true } })).collect();
    let looked = json!({ "allOf": parts, "unevaluatedProperties": false });
    assert!(why_not(&looked).contains("look through"));
    let within = |levels| {
        (0..levels).fold(
            json!({ "properties": { "z": true } }),
            |inner, _| json!({ "unevaluatedProperties": false, "anyOf": [inner] }),
        )
    };
    assert!(why_not(&within(15)).contains("rules for one place"));
    assert_eq!(check(&within(3), &json!({ "z": 1 })), Ok(()));
    let on_the_way = json!({ "anyOf": [{ "properties": { "b": true } }, { "properties": { "a": { "$ref": "#" } } }],
        "unevaluatedProperties": false });
    assert_eq!(check(&on_the_way, &nested(6, "a", json!({}))), Ok(()));
    assert!(is_too_costly(&check(&on_the_way, &nested(40, "a", json!({})))));
}

/// Seven resources that refer to each other took minutes and 2.5 GB to compile.
#[test]
fn resources_that_refer_to_each_other_do_not_multiply() {
    let all_to_all = |count: usize| {
        let all = || {
            (0..count).map(|index| (format!("p{index}"), json!({ "$ref": format!("s{index}") }))).collect::<Map<_, _>>()
        };
        let mut schema = defs(count, |index| json!({ "$id": format!("s{index}"), "properties": all() }));
        schema["$ref"] = json!("s0");
        schema
    };
    assert!(Checker::compile(&all_to_all(2)).is_ok());
    assert!(why_not(&all_to_all(7)).contains("`$id` of their own"));
    let dynamic = |count: usize| {
        json!({ "$defs": (0..count).map(|index| (format!("d{index}"),
        json!({ "$id": format!("s{index}"), "$dynamicAnchor": "a", "items": { "$dynamicRef": "#a" } }))).collect::<Map<_, _>>(),
        "properties": (0..count).map(|index| (format!("p{index}"), json!({ "$ref": format!("s{index}") }))).collect::<Map<_, _>>() })
    };
    assert!(why_not(&dynamic(1_500)).contains("dynamic references"));
    assert!(why_not(&dynamic(50)).contains("`$id` of their own"));
    let many = json!({ "properties": (0..200).map(|index| (format!("p{index}"), json!({ "$id": format!("s{index}"),
        "$ref": "https://json-schema.org/draft/2020-12/schema" }))).collect::<Map<_, _>>() });
    assert!(why_not(&many).contains("`$id` of their own"));
    let apart = json!({ "$defs": (0..1_000).map(|index| (format!("d{index}"), json!({ "$id": format!("s{index}"), "type": "string" }))).collect::<Map<_, _>>(),
        "properties": (0..1_000).map(|index| (format!("p{index}"), json!({ "$ref": format!("s{index}") }))).collect::<Map<_, _>>() });
    assert!(Checker::compile(&apart).is_ok());
}

#[test]
fn recursion_that_never_goes_down_is_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "not": { "$ref": "#" } }),
        json!({ "if": true, "then": { "$ref": "#" } }),
        json!({ "dependentSchemas": { "a": { "$ref": "#" } } }),
        json!({ "$dynamicAnchor": "a", "allOf": [{ "$dynamicRef": "#a" }] }),
        json!({ "$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": true, "anyOf": [{ "$recursiveRef": "#" }] }),
        json!({ "items": { "oneOf": [{ "$ref": "#/items" }] } }),
        json!({ "$anchor": "a", "allOf": [{ "$ref": "#a" }] }),
    ] {
        assert!(why_not(&schema).contains("without going down"), "{schema}");
    }
    assert!(
        why_not(&defs(600, |index| if index == 599 { json!({}) } else { to(index + 1) }))
            .contains("lead to each other")
    );
}

#[test]
fn recursion_that_branches_is_bounded_by_the_value() {
    let both = json!({ "anyOf": [{ "properties": { "a": { "$ref": "#" } }, "required": ["a"] },
        { "properties": { "a": { "$ref": "#" } }, "maxProperties": 1 }] });
    assert_eq!(check(&both, &nested(10, "a", json!({}))), Ok(()));
    assert!(is_too_costly(&check(&both, &nested(50, "a", json!({})))));
    let wide = Value::Object(
        (0..1_000).map(|index| (format!("k{index}"), json!({ "a": {} }))).chain([("a".into(), json!({}))]).collect(),
    );
    assert_eq!(check(&both, &wide), Ok(()), "it branches only where `a` is in `a`");
    // Nothing here leads to itself twice, and yet there are 10^17 ways down.
    let grows = defs(26, |index| json!({ "properties": { "a": { "allOf": [to(index), to((index + 1).min(25))] } } }));
    assert!(is_too_costly(&check(&grows, &nested(60, "a", json!({})))));
}

#[test]
fn trees_of_objects_that_tell_their_kind_may_be_deep() {
    let kind = |name: &str| {
        json!({ "type": "object", "properties": { "kind": { "const": name },
        "children": { "type": "array", "items": { "$ref": "#/$defs/d0" } } }, "required": ["kind"] })
    };
    let mut blocks = defs(20, |index| kind(&format!("k{index}")));
    let union: Vec<Value> = (1..20).map(to).chain([json!({ "type": "null" })]).collect();
    blocks["$defs"]["d0"] = json!({ "anyOf": union });
    let deep = |leaf| {
        (0..25).fold(leaf, |inner, level| json!({ "kind": format!("k{}", level % 19 + 1), "children": [inner] }))
    };
    assert_eq!(check(&blocks, &deep(json!(null))), Ok(()));
    assert_eq!(check(&blocks, &deep(json!(1))).unwrap_err().len(), 1);
    // Without what tells them apart, each level has 19 branches.
    blocks["$defs"]["d7"]["required"] = json!([]);
    blocks["$defs"]["d8"]["properties"]["kind"] = json!({ "type": "string" });
    assert!(is_too_costly(&check(&blocks, &deep(json!(null)))));
}

#[test]
fn many_rules_on_many_items_are_bounded() {
    let rules: Vec<Value> = (0..3_000).map(|index| json!({ "required": [format!("k{index}")] })).collect();
    let schema = json!({ "items": { "allOf": rules } });
    assert_eq!(check(&schema, &json!(vec![1; 500])), Ok(()));
    assert!(is_too_costly(&check(&schema, &json!(vec![1; 100_000]))));
    let large: Vec<Value> = (0..9_000).map(|index| json!([index])).collect();
    assert!(is_too_costly(&check(&json!({ "items": { "enum": large } }), &json!(vec![[8_999]; 50_000]))));
    let texts = json!({ "anyOf": vec![json!({ "minLength": 3_000_000 }); 4_000] });
    assert!(is_too_costly(&check(&texts, &json!("é".repeat(500_000)))));
}

/// 16,796 such arrays, 460 KB, took 1.6 s, and four times as many sixteen times as long.
#[test]
fn unique_items_are_bounded_where_their_hash_is_the_same() {
    let mut shapes: Vec<Vec<Value>> = vec![vec![], vec![json!([])]];
    for size in 2..=11 {
        let mut shapes_of_size = Vec::new();
        for (first, rest) in (1..size).flat_map(|first| {
            shapes[first].iter().flat_map({
                let shapes = &shapes;
                move |a| shapes[size - first].iter().map(move |b| (a, b))
            })
        }) {
            shapes_of_size.push(Value::Array([std::slice::from_ref(first), rest.as_array().unwrap()].concat()));
        }
        shapes.push(shapes_of_size);
    }
    let unique = json!({ "uniqueItems": true });
    assert_eq!(check(&unique, &Value::Array(shapes[7].clone())), Ok(()));
    assert!(is_too_costly(&check(&unique, &Value::Array([&shapes[11][..], &shapes[10]].concat()))));
    let objects = |count: usize| Value::Array((0..count).map(|id| json!({ "id": id })).collect());
    assert_eq!(check(&unique, &objects(20_000)), Ok(()));
    assert_eq!(check(&unique, &Value::Array((0..100_000).map(Value::from).collect())), Ok(()));
}

#[test]
fn patterns_are_bounded_when_compiled_and_when_matched() {
    let patterns = |pattern: &dyn Fn(usize) -> String, count: usize| json!({ "properties": (0..count).map(|index| (format!("p{index}"), json!({ "pattern": pattern(index) }))).collect::<Map<_, _>>() });
    assert!(why_not(&patterns(&|index| format!("x{index}.{{1,5000}}z"), 20)).contains("too large together"));
    assert!(why_not(&patterns(&|index| format!("^x{index}$"), 600)).contains("too many"));
    assert!(why_not(&patterns(&|index| format!("x{index}(a{{1,1000}}){{1,1000}}z"), 3)).contains("too large"));
    let states = json!({ "pattern": "([ab]|[bc])*a.{3000}x$" });
    assert!(is_too_costly(&check(&states, &json!("ab".repeat(500_000)))));
    // The validator stops a pattern that steps back too often, and then does not say yes.
    let back = json!({ "items": { "pattern": "(?=.*z)(?:(?=.*y)a|a)*b" } });
    let failures = check(&back, &json!([format!("{}z", "a".repeat(300))])).unwrap_err();
    assert_eq!(failures, [FieldError::new("/0", "takes too long to match with a pattern")]);
    assert!(is_too_costly(&check(&back, &json!([format!("{}z", "a".repeat(100_000))]))));
    assert!(is_too_costly(&check(&back, &json!(vec!["a".repeat(40); 20_000]))));
    let not_blank = json!({ "pattern": r"^(?!\s*$).+" });
    assert_eq!(check(&not_blank, &json!("ab ".repeat(300_000))), Ok(()));
    assert!(check(&not_blank, &json!("  ".repeat(300_000))).is_err());
}

#[test]
fn failures_are_told_in_short_where_they_would_take_much_memory() {
    let in_short = |schema: Value, value: Value| {
        let failures = check(&schema, &value).unwrap_err();
        assert_eq!(failures.len(), 1);
        assert!(failures[0].detail.contains("too large to say where"), "{failures:?}");
    };
    let bad = json!({ "k".repeat(100_000): vec![1; 10_000] });
    in_short(json!({ "additionalProperties": { "items": { "type": "string" } } }), bad);
    in_short(json!({ "items": { "type": "string" } }), json!(vec![1; 300_000]));
    let branches: Vec<Value> = (0..900).map(|_| json!({ "maxLength": 3 })).collect();
    in_short(json!({ "anyOf": branches }), json!("x".repeat(250_000)));
    let rows = |bad: usize| {
        (0..20_000).map(|row| json!({ "a": if row == bad { json!(1) } else { json!("x") } })).collect::<Vec<_>>()
    };
    let schema = json!({ "items": { "properties": { "a": { "type": "string" } }, "required": ["a"] } });
    let failures = check(&schema, &json!(rows(9_999))).unwrap_err();
    assert_eq!(failures, [FieldError::new("/9999/a", "this is not of type \"string\"")]);
    assert_eq!(check(&schema, &json!(vec![json!({}); 200])).unwrap_err().len(), 50);
}

#[test]
fn texts_of_failures_are_short_and_do_not_quote_values() {
    let schema = json!({ "properties": { "pin": { "enum": vec!["x".repeat(90); 9] }, "key": { "pattern": "^k", "maxLength": 3 } },
        "propertyNames": { "maxLength": 9 }, "required": ["city"], "not": { "required": ["no"] } });
    let value = json!({ "pin": "hunter2\u{1b}", "key": "sk-hunter2", "no": 1, "hunter2-hunter2": 1 });
    let failures = check(&schema, &value).unwrap_err();
    assert!(failures.len() >= 5, "{failures:?}");
    assert!(
        failures.iter().all(|failure| failure.detail.len() <= 200 && !failure.detail.contains("hunter2")),
        "{failures:?}"
    );
    assert!(failures.contains(&FieldError::new("", "\"city\" is a required property")), "{failures:?}");
}

/// 256 references in a row at each of 64 levels took more than 2 MiB of stack.
#[test]
fn the_longest_ways_down_fit_on_a_small_stack() {
    fn way(kind: usize, next: Value) -> Value {
        match kind % 4 {
            0 => json!({ "oneOf": [next, false] }),
            1 => json!({ "allOf": [next, { "minProperties": 0 }] }),
            2 => json!({ "if": false, "else": next }),
            _ => json!({ "anyOf": [false, next] }),
        }
    }
    let run = || {
        // Two nodes for each: the definition, and the reference to the next.
        let last = MAX_IN_PLACE / 2 - 1;
        for turn in 0..4 {
            let end = json!({ "properties": { "a": to(0) }, "maxProperties": 1 });
            let recursive =
                defs(
                    last + 1,
                    |index| if index == last { end.clone() } else { way(index * turn + turn, to(index + 1)) },
                );
            let recursive = Checker::compile(&recursive).unwrap();
            let answer = recursive.check(&nested(MAX_DEPTH, "a", json!({})));
            assert!(answer.unwrap_err()[0].detail.contains("nested deeper"));
            assert_eq!(recursive.check(&nested(MAX_DEPTH - 1, "a", json!({}))), Ok(()));
            assert!(recursive.check(&nested(MAX_DEPTH - 2, "a", json!({ "a": {}, "b": 1 }))).is_err());
        }
        for member in ["items", "additionalProperties", "unevaluatedProperties", "contains"] {
            let long = defs(50, |index| if index == 49 { json!({}) } else { nested(60, member, to(index + 1)) });
            assert!(Checker::compile(&long).is_ok(), "{member}");
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

/// The validator loses a subschema here and panics when it comes to it (jsonschema 0.61.2).
#[test]
fn what_the_validator_cannot_use_is_not_valid() {
    let at = |member: &str, schema: Value| json!({ member: { "a": schema } });
    let up = json!({ "anyOf": [{ "properties": { "a": { "$ref": "#" } } }] });
    let schema = json!({
        "unevaluatedProperties": false,
        "dependentSchemas": { "a": at("dependentSchemas", json!({ "$ref": "#/$defs/a" })) },
        "$defs": {
            "a": at("patternProperties", json!({ "$ref": "#/$defs/b" })),
            "b": at("patternProperties", at("patternProperties", up)),
        },
    });
    let checker = Checker::compile(&schema).unwrap();
    assert!(checker.check(&json!({ "a": "k" })).is_err());
    assert_eq!(checker.check(&json!({})), Ok(()));
}
