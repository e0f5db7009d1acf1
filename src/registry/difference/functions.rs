//! What a version tells models of itself, compared with another.
//!
//! Models act on descriptions and schemas, and no program can tell whether another text makes them
//! do more. So every other text counts as more.

use std::collections::BTreeSet;

use semver::Version;
use serde_json::{Value, json};

use crate::model::{Digest, Function, Skill, pointer_segment, without_manifest};

use super::Change;

/// Which functions and descriptions are new, gone or others.
pub(super) fn changes(old: &Skill, new: &Skill) -> Vec<Change> {
    let mut changes = Vec::new();
    if old.description != new.description {
        let says = format!("its description is another than that of {}", old.version);
        let values = (json!(old.description), json!(new.description));
        changes.push(Change::new("/description", values, true, says));
    }
    for function in callable(new) {
        match callable(old).find(|known| known.name == function.name) {
            Some(known) => changes.extend(function_changes((old, known), (new, function))),
            None => {
                let says = format!("the function `{}` is new: {} has none of that name", function.name, old.version);
                changes.push(Change::new(path(function, ""), (Value::Null, json!(function)), true, says));
            }
        }
    }
    for gone in callable(old).filter(|known| !callable(new).any(|function| function.name == known.name)) {
        let says = format!("the function `{}` is gone", gone.name);
        changes.push(Change::new(path(gone, ""), (json!(gone), Value::Null), false, says));
    }
    changes
}

/// Whether it says something else in its `SKILL.md`, besides the manifest there.
pub(super) fn text(version: &Version, from: Option<&str>, to: Option<&str>) -> Option<Change> {
    let (from, to) = (from.map(without_manifest), to.map(without_manifest));
    let says = match (&from, &to) {
        _ if from == to => return None,
        (None, _) => format!("it has a SKILL.md, and {version} has none"),
        (_, None) => "it no longer has a SKILL.md".to_owned(),
        _ => format!("its SKILL.md says something else than that of {version}"),
    };
    let grows = to.is_some();
    // Long, and found elsewhere.
    let digest = |text: Option<String>| json!(text.map(|text| Digest::of(text.as_bytes())));
    Some(Change::new("/skillMd", (digest(from), digest(to)), grows, says))
}

fn callable(skill: &Skill) -> impl Iterator<Item = &Function> {
    skill.functions.iter().filter(|function| function.callable)
}

fn path(function: &Function, below: &str) -> String {
    format!("/functions/{}{below}", pointer_segment(&function.name))
}

fn function_changes((old_skill, old): (&Skill, &Function), (new_skill, new): (&Skill, &Function)) -> Vec<Change> {
    let mut changes = Vec::new();
    let is_the_skills = old.description == old_skill.description && new.description == new_skill.description;
    if old.description != new.description && !is_the_skills {
        let says = format!("the description of `{}` is another than in {}", new.name, old_skill.version);
        let values = (json!(old.description), json!(new.description));
        changes.push(Change::new(path(new, "/description"), values, true, says));
    }
    let sides = [("input", &old.schema.input, &new.schema.input), ("output", &old.schema.output, &new.schema.output)];
    for (side, from, to) in sides.into_iter().filter(|(_, from, to)| from != to) {
        let how = properties(from.as_ref(), to.as_ref());
        let says = format!("the {side} schema of `{}` is another than in {}{how}", new.name, old_skill.version);
        changes.push(Change::new(path(new, &format!("/schema/{side}")), (json!(from), json!(to)), true, says));
    }
    changes
}

/// Which properties of an object came, went and are others.
fn properties(from: Option<&Value>, to: Option<&Value>) -> String {
    let of = |schema: Option<&Value>| schema.and_then(|schema| schema.get("properties")?.as_object().cloned());
    let (from, to) = (of(from).unwrap_or_default(), of(to).unwrap_or_default());
    let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    let word = |name: &&String| match (from.get(*name), to.get(*name)) {
        (None, Some(_)) => Some(format!("`{name}` is new")),
        (Some(_), None) => Some(format!("`{name}` is gone")),
        (from, to) => (from != to).then(|| format!("`{name}` is another")),
    };
    let words: Vec<String> = names.iter().filter_map(word).take(8).collect();
    if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) }
}
