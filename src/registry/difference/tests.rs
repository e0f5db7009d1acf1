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

fn compared(old: Option<&Skill>, new: &Skill) -> Vec<Change> {
    changes((old, new), &|_| None)
}

fn between(old: Value, new: Value) -> Vec<String> {
    told(&compared(Some(&granted("1.0.0", old)), &granted("1.1.0", new)))
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
    assert_eq!(told(&compared(Some(&old), &new)), grown);
    assert_eq!(told(&compared(Some(&new), &old)), [""; 0], "narrower ceilings are nothing that anybody must accept");
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
    let first = |grants: Value| told(&compared(None, &granted("1.0.0", grants)));
    assert_eq!(first(json!({})), [""; 0]);
    assert_eq!(first(json!({ "kv": true, "network": ["public"] })), ["/grants/network added +", "/grants/kv added +"]);
}

#[test]
fn larger_limits_grow_but_wait_for_nobody() {
    let old = skill("o", "1.0.0");
    let limits = Limits { memory_mb: 512, timeout_ms: 5, ..Limits::DEFAULT };
    let found = compared(Some(&old), &Skill { limits, ..skill("o", "1.1.0") });
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
    let found = compared(Some(&old), &Skill { description: "new".into(), functions, ..skill("o", "1.1.0") });
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

#[test]
fn another_callee_grows_where_it_may_do_more_or_is_somebody_elses() {
    let callee =
        |owner: &str, version: &str, grants: Value| Skill { owner: owner.parse().unwrap(), ..granted(version, grants) };
    let callees = [
        callee("ada", "1.0.0", json!({ "workspace": "read" })),
        callee("ada", "1.0.1", json!({})),
        callee("ada", "1.1.0", json!({ "workspace": "write" })),
        callee("system", "1.0.2", json!({})),
    ]
    .map(|skill| Skill { id: SkillId::generate(), ..skill })
    .map(RegisteredSkill::new);
    let find = |id: SkillId| callees.iter().find(|callee| callee.skill.id == id).cloned();
    let caller = |version: &str, at: usize| {
        let (id, number) = (callees[at].skill.id, callees[at].skill.version.clone());
        let pin = Pin { grant: "b".into(), id, name: "b".parse().unwrap(), version: number };
        Skill { pinned: vec![pin], ..granted(version, json!({ "skills": ["b"] })) }
    };
    let moved = |to: usize| changes((Some(&caller("1.0.0", 0)), &caller("1.1.0", to)), &find);
    assert_eq!(told(&moved(1)), ["/grants/skills changed"]);
    for (to, why) in [(2, "that version may do more"), (3, "another owner")] {
        let found = moved(to);
        assert_eq!(told(&found), ["/grants/skills changed +"]);
        assert!(found[0].says.ends_with(why), "{}", found[0].says);
    }
    let gone = changes((Some(&caller("1.0.0", 0)), &caller("1.1.0", 1)), &|_| None);
    assert_eq!(told(&gone), ["/grants/skills changed +"], "what is no longer there cannot be compared");
}

#[test]
fn another_skill_md_counts_as_more_and_another_manifest_in_it_does_not() {
    let version = "1.0.0".parse().unwrap();
    let text =
        |number: u32, more: &str| format!("# a\n```json skill\n{{\"version\": \"{number}.0.0\"}}\n```\n{more}\n");
    let differs = |from: Option<&str>, to: Option<&str>| {
        functions::text(&version, from, to).map(|change| (change.kind, change.grows))
    };
    let (one, same, other) = (text(1, "Do this."), text(2, "Do this."), text(2, "Send all files."));
    assert_eq!(differs(Some(&one), Some(&same)), None);
    assert_eq!(differs(Some(&one), Some(&other)), Some((ChangeKind::Changed, true)));
    assert_eq!(differs(None, Some(&one)), Some((ChangeKind::Added, true)));
    assert_eq!(differs(Some(&one), None), Some((ChangeKind::Removed, false)));
}
