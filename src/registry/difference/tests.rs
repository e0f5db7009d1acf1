use serde_json::json;

use crate::model::{Access, Function, Grants, Limits, Pin, Schemas, SkillId};
use crate::registry::index::tests::skill;

use super::*;

/// A version with these grants, of a key that may give everything.
fn granted(version: &str, grants: Value) -> Skill {
    let grants: Grants = serde_json::from_value(grants).unwrap();
    Skill {
        grants,
        frozen_network: vec!["public".parse().unwrap()],
        frozen_workspace: Access::Write,
        frozen_secrets: None,
        frozen_skills: None,
        ..skill("o", version)
    }
}

/// What differs: path, kind and whether it grows.
fn told(changes: &[Change]) -> Vec<String> {
    let told = |change: &Change| {
        let kind = serde_json::to_value(change.kind).unwrap();
        format!("{} {}{}", change.path, kind.as_str().unwrap(), if change.grows { " +" } else { "" })
    };
    changes.iter().map(told).collect()
}

fn between(old: Value, new: Value) -> Vec<String> {
    told(&changes(Some(&granted("1.0.0", old)), &granted("1.1.0", new)))
}

#[test]
fn a_wider_rule_grows_and_a_narrower_or_absent_one_does_not() {
    let rules = |rules: &[&str]| json!({ "network": rules });
    let wide = || rules(&["https://a.example"]);
    assert_eq!(between(wide(), wide()), [""; 0]);
    let narrowed = between(wide(), rules(&["GET https://a.example/v1/*"]));
    assert_eq!(narrowed, ["/grants/network added", "/grants/network removed"]);
    let widened = between(rules(&["GET https://a.example/v1/*"]), wide());
    assert_eq!(widened, ["/grants/network added +", "/grants/network removed"]);
    assert_eq!(between(wide(), json!({})), ["/grants/network removed"]);
    assert_eq!(between(json!({}), rules(&["public"])), ["/grants/network added +"]);
}

#[test]
fn the_same_grants_under_wider_ceilings_grow() {
    let grants = json!({ "network": ["https://a.example"], "secrets": ["S"], "workspace": "write", "skills": ["b"] });
    let pin = Pin {
        grant: "b".into(),
        id: SkillId::generate(),
        name: "b".parse().unwrap(),
        version: "1.0.0".parse().unwrap(),
    };
    let new = Skill { pinned: vec![pin.clone()], ..granted("1.1.0", grants.clone()) };
    let old = Skill {
        frozen_network: Vec::new(),
        frozen_secrets: Some(Vec::new()),
        frozen_workspace: Access::Read,
        frozen_skills: Some(Vec::new()),
        pinned: vec![pin],
        ..granted("1.0.0", grants)
    };
    let grown = [
        "/grants/network added +",
        "/grants/workspace changed +",
        "/grants/secrets changed +",
        "/grants/skills changed +",
    ];
    assert_eq!(told(&changes(Some(&old), &new)), grown);
    assert_eq!(told(&changes(Some(&new), &old)), [""; 0], "narrower ceilings are nothing that anybody must accept");
}

#[test]
fn each_grant_is_told_and_only_what_reaches_something_grows() {
    let all = json!({
        "workspace": "read", "kv": true, "config": { "A": "1", "B": "2" }, "env": { "X": "1" },
        "secrets": ["S", { "name": "T", "for": "GET https://a.example/v1/*" }],
    });
    let grown = [
        "/grants/workspace added +",
        "/grants/secrets added +",
        "/grants/secrets added +",
        "/grants/kv added +",
        "/grants/config/A added",
        "/grants/config/B added",
        "/grants/env/X added",
    ];
    assert_eq!(between(json!({}), all.clone()), grown);
    let less = json!({
        "workspace": "none", "config": { "A": "other" },
        "secrets": [{ "name": "S", "for": "GET https://a.example/*" }, { "name": "T", "for": "https://a.example/*" }],
    });
    let changed = [
        "/grants/workspace removed",
        "/grants/secrets changed",
        "/grants/secrets changed +",
        "/grants/kv removed",
        "/grants/config/A changed",
        "/grants/config/B removed",
        "/grants/env/X removed",
    ];
    assert_eq!(between(all, less), changed);
}

#[test]
fn the_first_version_is_compared_with_nothing() {
    let first = |grants: Value| told(&changes(None, &granted("1.0.0", grants)));
    assert_eq!(first(json!({})), [""; 0]);
    assert_eq!(first(json!({ "kv": true, "network": ["public"] })), ["/grants/network added +", "/grants/kv added +"]);
}

#[test]
fn larger_limits_grow_but_wait_for_nobody() {
    let old = skill("o", "1.0.0");
    let limits = Limits { memory_mb: 512, timeout_ms: 5, ..Limits::DEFAULT };
    let found = changes(Some(&old), &Skill { limits, ..skill("o", "1.1.0") });
    let mut lines = told(&found);
    lines.sort();
    assert_eq!(lines, ["/limits/memoryMb changed +", "/limits/timeoutMs changed"]);
    assert!(!found.iter().any(Change::needs_approval));
}

#[test]
fn another_text_for_models_counts_as_more_and_a_function_that_is_gone_does_not() {
    let function = |name: &str, description: &str, input: Value| Function {
        name: name.into(),
        description: description.into(),
        schema: Schemas { input: Some(input), output: None },
        callable: true,
        reason: None,
    };
    let old = Skill {
        functions: vec![function("a/b", "x", json!({ "properties": { "p": {} } })), function("c", "x", json!({}))],
        ..skill("o", "1.0.0")
    };
    let input = json!({ "properties": { "q": {} } });
    let functions = vec![function("a/b", "send all files", input), function("d", "x", json!({}))];
    let found = changes(Some(&old), &Skill { description: "new".into(), functions, ..skill("o", "1.1.0") });
    let expected = [
        "/description changed +",
        "/functions/a~1b/description changed +",
        "/functions/a~1b/schema/input changed +",
        "/functions/d added +",
        "/functions/c removed",
    ];
    assert_eq!(told(&found), expected);
    assert!(found[2].says.ends_with("than in 1.0.0: `p` is gone, `q` is new"), "{}", found[2].says);
}
