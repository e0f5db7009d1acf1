//! What a version may touch, compared with another.
//!
//! What counts is what is asked for under the ceilings of the key that registered it. Where two
//! sets cannot be compared exactly, what might be more counts as more.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::egress::covers;
use crate::model::{Access, Grants, Limits, NetworkRule, Pin, SecretGrant, Skill, pointer_segment};

use super::callees::Callees;
use super::{Change, Find};

/// What one of the two may touch.
struct Side<'a> {
    /// What it is called in sentences.
    name: String,
    grants: &'a Grants,
    network: &'a [NetworkRule],
    workspace: Access,
    secrets: Option<&'a [String]>,
    skills: Option<&'a [String]>,
    pinned: &'a [Pin],
    public: bool,
    reuse: bool,
}

impl<'a> Side<'a> {
    fn of(skill: &'a Skill) -> Self {
        Self {
            name: skill.version.to_string(),
            grants: &skill.grants,
            network: &skill.frozen_network,
            workspace: skill.grants.workspace.min(skill.frozen_workspace),
            secrets: skill.frozen_secrets.as_deref(),
            skills: skill.frozen_skills.as_deref(),
            pinned: &skill.pinned,
            public: skill.public,
            reuse: skill.is_reused(),
        }
    }

    /// Nothing, under no ceiling that would have to grow.
    fn nothing(grants: &'a Grants) -> Self {
        let name = "no version before".to_owned();
        let (network, secrets, skills, pinned) = (&[], Some(&[][..]), Some(&[][..]), &[]);
        Self { name, grants, network, workspace: Access::None, secrets, skills, pinned, public: false, reuse: false }
    }

    /// Whether a request that `rule` allows might go out.
    fn may_connect(&self, rule: &NetworkRule) -> bool {
        self.grants.network.iter().any(|asked| covers(asked, rule))
    }

    /// Whether the key that registered it allowed all of `rule`.
    fn allows(&self, rule: &NetworkRule) -> bool {
        self.network.iter().any(|ceiling| covers(ceiling, rule))
    }

    fn may_use(&self, secret: &SecretGrant) -> bool {
        self.grants.secrets.iter().any(|held| match (held.name() == secret.name(), held.only(), secret.only()) {
            (false, ..) | (true, Some(_), None) => false,
            (true, None, _) => true,
            (true, Some(held), Some(asked)) => covers(held, asked),
        })
    }

    fn pin(&self, grant: &str) -> Option<&Pin> {
        self.pinned.iter().find(|pin| pin.grant == grant)
    }
}

/// What differs in what they may touch.
pub(super) fn changes(sides: (Option<&Skill>, &Skill), find: &Find<'_>) -> Vec<Change> {
    below(sides, &Callees::new(find))
}

/// The same, for skills that may be called by others that are compared.
pub(super) fn below((old, new): (Option<&Skill>, &Skill), callees: &Callees<'_>) -> Vec<Change> {
    let none = Grants::default();
    let (old, new) = (old.map_or_else(|| Side::nothing(&none), Side::of), Side::of(new));
    let mut changes = network(&old, &new);
    changes.extend(workspace(&old, &new));
    changes.extend(secrets(&old, &new));
    changes.extend(skills(&old, &new, callees));
    changes.extend(switch("/grants/kv", (old.grants.kv, new.grants.kv), &["keep values", &old.name]));
    changes.extend(switch("/public", (old.public, new.public), &["be seen without a key", &old.name]));
    changes.extend(switch("/reuse", (old.reuse, new.reuse), &["keep its instances between calls", &old.name]));
    changes.extend(values("config", &old.grants.config, &new.grants.config));
    changes.extend(values("env", &old.grants.env, &new.grants.env));
    changes
}

fn network(old: &Side<'_>, new: &Side<'_>) -> Vec<Change> {
    let (asked, before) = (&new.grants.network, &old.grants.network);
    let path = "/grants/network";
    let mut changes = Vec::new();
    for rule in asked.iter().filter(|rule| !before.contains(rule)) {
        let grows = !old.may_connect(rule);
        let than = if grows { "might not" } else { "might under a wider rule" };
        let says = format!("it may connect to `{rule}`, which {} {than}", old.name);
        changes.push(Change::new(path, (Value::Null, json!(rule)), grows, says));
    }
    for rule in before.iter().filter(|rule| !asked.contains(rule)) {
        let says = format!("it no longer asks to connect to `{rule}`");
        changes.push(Change::new(path, (json!(rule), Value::Null), false, says));
    }
    // The same rule lets more through where the key behind it may give more.
    let widened = !before.is_empty() && asked.iter().any(|rule| !old.allows(rule));
    for ceiling in new.network.iter().filter(|ceiling| widened && !old.allows(ceiling)) {
        let says = format!("the key behind it allows connections to `{ceiling}`, which that of {} did not", old.name);
        changes.push(Change::new(path, (Value::Null, json!(ceiling)), true, says));
    }
    changes
}

fn workspace(old: &Side<'_>, new: &Side<'_>) -> Option<Change> {
    let (from, to) = (old.grants.workspace, new.grants.workspace);
    let grows = new.workspace > old.workspace;
    let word = |access| match access {
        Access::None => Value::Null,
        Access::Read | Access::Write => json!(access),
    };
    let says = match (grows, new.workspace) {
        (true, Access::Write) => format!("it may write its owner's files, which {} might not", old.name),
        (true, _) => format!("it may read its owner's files, which {} might not", old.name),
        (false, _) => "what it may do with its owner's files is no more than before".to_owned(),
    };
    (grows || from != to).then(|| Change::new("/grants/workspace", (word(from), word(to)), grows, says))
}

fn secrets(old: &Side<'_>, new: &Side<'_>) -> Vec<Change> {
    let path = "/grants/secrets";
    let mut changes = Vec::new();
    for secret in &new.grants.secrets {
        let name = secret.name();
        let same = old.grants.secrets.contains(secret);
        let allowed = secret.is_within(new.secrets) && !secret.is_within(old.secrets);
        let grows = !old.may_use(secret) || allowed;
        if same && !grows {
            continue;
        }
        let says = if grows {
            format!("its requests may carry the secret `{name}` where those of {} might not", old.name)
        } else {
            format!("its requests may carry the secret `{name}` to fewer places than those of {}", old.name)
        };
        let from = old.grants.secrets.iter().find(|held| held.name() == name);
        changes.push(Change::new(path, (json!(from), json!(secret)), grows, says));
    }
    let gone = |held: &&SecretGrant| !new.grants.secrets.iter().any(|secret| secret.name() == held.name());
    for held in old.grants.secrets.iter().filter(gone) {
        let says = format!("it no longer asks for the secret `{}`", held.name());
        changes.push(Change::new(path, (json!(held), Value::Null), false, says));
    }
    changes
}

fn skills(old: &Side<'_>, new: &Side<'_>, callees: &Callees<'_>) -> Vec<Change> {
    let path = "/grants/skills";
    let mut changes = Vec::new();
    for pin in new.pinned {
        let (grant, to) = (&pin.grant, json!({ "grant": pin.grant, "version": pin.version }));
        let allowed = pin.is_within(new.skills) && !pin.is_within(old.skills);
        match old.pin(grant) {
            Some(held) if !allowed && held.id == pin.id => {}
            Some(held) => {
                let from = json!({ "grant": held.grant, "version": held.version });
                let more = callees.more(held.id, pin.id).filter(|_| held.id != pin.id);
                let also = more.map(|more| format!("; {more}")).unwrap_or_default();
                let says =
                    format!("it may call `{grant}` as {}, and {} as {}{also}", pin.version, old.name, held.version);
                changes.push(Change::new(path, (from, to), allowed || more.is_some(), says));
            }
            None => {
                let says = format!("it may call the skill `{grant}`, which {} might not", old.name);
                changes.push(Change::new(path, (Value::Null, to), true, says));
            }
        }
    }
    for held in old.pinned.iter().filter(|held| new.pin(&held.grant).is_none()) {
        let from = json!({ "grant": held.grant, "version": held.version });
        let says = format!("it no longer asks to call the skill `{}`", held.grant);
        changes.push(Change::new(path, (from, Value::Null), false, says));
    }
    changes
}

/// Something that it may, or may not.
fn switch(path: &str, (from, to): (bool, bool), [what, old]: &[&str; 2]) -> Option<Change> {
    let says = if to { format!("it may {what}, which {old} might not") } else { format!("it may no longer {what}") };
    let word = |on: bool| if on { Value::Bool(true) } else { Value::Null };
    (from != to).then(|| Change::new(path, (word(from), word(to)), to, says))
}

/// Values come from the author and reach nothing: they are told, and never more.
fn values(kind: &str, old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<Change> {
    let names: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let differing = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    let change = |name: &String| {
        let verb = match (old.get(name), new.get(name)) {
            (None, _) => "is new",
            (_, None) => "is gone",
            _ => "has another value",
        };
        let values = (json!(old.get(name)), json!(new.get(name)));
        Change::new(
            format!("/grants/{kind}/{}", pointer_segment(name)),
            values,
            false,
            format!("the {kind} value `{name}` {verb}"),
        )
    };
    differing.map(change).collect()
}

/// Which limits are others.
pub(super) fn limits(old: &Skill, new: &Skill) -> Vec<Change> {
    let (from, to) = (json!(old.limits), json!(new.limits));
    let empty = serde_json::Map::new();
    let larger = larger_limits(&old.limits, &new.limits);
    let differing = to.as_object().unwrap_or(&empty).iter().filter(|(name, value)| from.get(name) != Some(value));
    let change = |(name, value): (&String, &Value)| {
        let was = from.get(name).cloned().unwrap_or_default();
        let grows = larger.contains(&name.as_str());
        let says = format!("limits.{name} is {value}, and was {was} in {}", old.version);
        Change::new(format!("/limits/{name}"), (was, value.clone()), grows, says)
    };
    differing.map(change).collect()
}

fn larger_limits(old: &Limits, new: &Limits) -> Vec<&'static str> {
    let fuel = |limits: &Limits| limits.fuel.units().unwrap_or(u64::MAX);
    let all = [
        ("timeoutMs", new.timeout_ms, old.timeout_ms),
        ("attemptTimeoutMs", new.attempt_timeout_ms, old.attempt_timeout_ms),
        ("memoryMb", new.memory_mb, old.memory_mb),
        ("fuel", fuel(new), fuel(old)),
        ("cpuPercent", new.cpu_percent, old.cpu_percent),
        ("outputBytes", new.output_bytes, old.output_bytes),
        ("argsBytes", new.args_bytes, old.args_bytes),
    ];
    all.into_iter().filter(|(_, new, old)| new > old).map(|(name, ..)| name).collect()
}
