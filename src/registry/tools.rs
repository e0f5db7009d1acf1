//! Skills as tools: which functions a caller is offered, and under which names.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::model::{Caller, Error, Mode, Scope, SkillName, SkillRef, SkillState, VersionSelector, known_as};

use super::{RegisteredSkill, Registry};

/// Longest name of a tool, in bytes: what all models take.
const MAX_TOOL_NAME: usize = 64;

/// One function of one skill, under the name of a tool.
#[derive(Clone, Debug)]
pub struct ToolRef {
    /// The tool's name: `[A-Za-z0-9_-]`, at most 64 of them.
    pub name: String,
    /// The skill.
    pub skill: Arc<RegisteredSkill>,
    /// Which of its functions.
    pub function: usize,
}

impl ToolRef {
    /// What runs it.
    pub fn reference(&self) -> SkillRef {
        SkillRef::FunctionOf(self.skill.skill.id, self.skill.function_name(self.function).to_string())
    }
}

impl RegisteredSkill {
    /// The functions that can be called, as tools: `<skill>` where there is one, else
    /// `<skill>__<function>`.
    pub fn tools(self: &Arc<Self>) -> Vec<ToolRef> {
        let functions = self.skill.functions.iter().enumerate().filter(|(_, function)| function.callable);
        let functions: Vec<_> = functions.collect();
        let tool =
            |(function, name): (usize, String)| ToolRef { name: fitting(name), skill: Arc::clone(self), function };
        let skill = self.skill.name.as_str();
        match &functions[..] {
            [(only, _)] => vec![tool((*only, skill.to_owned()))],
            several => several.iter().map(|(at, one)| tool((*at, format!("{skill}__{}", one.name)))).collect(),
        }
    }
}

/// A name as it is where it is legal, else cut, with 8 hex digits of its SHA-256 behind it. No
/// legal name of a tool ends so: in those, a single `_` is nowhere.
fn fitting(name: String) -> String {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.len() <= MAX_TOOL_NAME && name.bytes().all(legal) {
        return name;
    }
    let safe = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' });
    let cut: String = safe.take(MAX_TOOL_NAME - 9).collect();
    format!("{}_{}", cut.trim_end_matches(['_', '-']), hex::encode(&Sha256::digest(name.as_bytes())[..4]))
}

impl Registry {
    /// The newest version of every skill that this key may run, by name: what `name` alone means.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:read`.
    pub fn newest(&self, caller: &Caller) -> Result<Vec<Arc<RegisteredSkill>>, Error> {
        caller.key.require(Scope::SkillsRead)?;
        Ok(self.newest_of(caller))
    }

    fn newest_of(&self, caller: &Caller) -> Vec<Arc<RegisteredSkill>> {
        let key = &caller.key;
        let mut newest: HashMap<SkillName, Arc<RegisteredSkill>> = HashMap::new();
        let index = self.skills.read();
        let own_or_global = |skill: &&Arc<RegisteredSkill>| {
            (skill.skill.owner == key.owner || skill.skill.owner.is_system()) && key.may_see(&skill.skill.name)
        };
        for skill in index.by_id.values().filter(own_or_global) {
            let known = newest.entry(skill.skill.name.clone()).or_insert_with(|| Arc::clone(skill));
            if rank(caller, skill, known) == Ordering::Greater {
                *known = Arc::clone(skill);
            }
        }
        drop(index);
        let mut newest: Vec<_> = newest.into_values().collect();
        newest.sort_by(|a, b| a.skill.name.cmp(&b.skill.name));
        newest
    }

    /// The tools that are offered to this key: functions of skills that are enabled, `on` and
    /// not broken, by name. A key that may not run skills is offered none.
    ///
    /// # Errors
    ///
    /// As [`Registry::newest`].
    pub fn tools(&self, caller: &Caller) -> Result<Vec<ToolRef>, Error> {
        if !caller.key.has(Scope::SkillsExecute) {
            return Ok(Vec::new());
        }
        let offered = self.newest(caller)?.into_iter().filter(|skill| is_offered(skill, Mode::On));
        let mut tools: Vec<_> = offered.flat_map(|skill| skill.tools()).collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools.dedup_by(|b, a| a.name == b.name);
        Ok(tools)
    }

    /// The tool of this name, be it offered or not: whether it may run is found when it runs.
    ///
    /// # Errors
    ///
    /// `not_found`.
    pub fn tool(&self, caller: &Caller, name: &str) -> Result<ToolRef, Error> {
        let unknown = || Error::not_found("tool");
        let name = known_as(name);
        let named = |skill: &Arc<RegisteredSkill>| skill.tools().into_iter().find(|tool| tool.name == name);
        // A skill's name has no `_`, so that most names are found without a search.
        let skill = name.split_once("__").map_or(name, |(skill, _)| skill);
        if let Ok(skill) = skill.parse::<SkillName>() {
            let reference = SkillRef::Name { name: skill, version: VersionSelector::Latest, function: None };
            if let Some(tool) = self.resolve(caller, &reference).ok().as_ref().and_then(named) {
                return Ok(tool);
            }
        }
        let is_cut = name.len() <= MAX_TOOL_NAME && name.rsplit_once('_').is_some_and(|(_, end)| end.len() == 8);
        if !is_cut {
            return Err(unknown());
        }
        self.newest_of(caller).iter().find_map(named).ok_or_else(unknown)
    }
}

/// Whether agents are told of a skill of this mode.
pub(super) fn is_offered(skill: &RegisteredSkill, mode: Mode) -> bool {
    let skill = &skill.skill;
    skill.enabled && skill.mode == mode && matches!(skill.state, SkillState::Ready | SkillState::Compiling)
}

/// Which of two versions with one name is meant: an own one, then a stable one, then the higher.
fn rank(caller: &Caller, a: &RegisteredSkill, b: &RegisteredSkill) -> Ordering {
    let place = |skill: &RegisteredSkill| (skill.skill.owner == *caller.owner(), skill.skill.version.pre.is_empty());
    place(a).cmp(&place(b)).then_with(|| a.skill.version.cmp(&b.skill.version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_cut_and_stays_its_own() {
        assert_eq!(fitting("a-b__c".into()), "a-b__c");
        let longest = "a".repeat(MAX_TOOL_NAME);
        assert_eq!(fitting(longest.clone()), longest);
        let (one, two) = (fitting(format!("{longest}__b")), fitting(format!("{longest}__c")));
        assert_ne!(one, two);
        for cut in [&one, &two, &fitting(format!("{}__some-function", "b".repeat(53))), &fitting("a:b".into())] {
            assert!(cut.len() <= MAX_TOOL_NAME, "{cut}");
            let (front, hash) = cut.rsplit_once('_').unwrap();
            assert!(hash.len() == 8 && !front.ends_with('_'), "{cut}");
        }
    }
}
