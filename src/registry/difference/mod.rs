//! What a version may do and says of itself that the one before it did not.
//!
//! Whoever trusts a version has not seen the next one. So what grows is told where it is pushed, and
//! with `approval = "required"` it waits until somebody accepts it.

mod callees;
mod functions;
mod grants;

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::model::{Approval, ApprovalPolicy, Caller, Error, Skill, SkillId, SkillRef, VersionSelector};

use super::supplied::is_supplied;
use super::{RegisteredSkill, Registry};

/// Most warnings of one upload about what grows; the difference itself has all of it.
const MAX_WARNINGS: usize = 20;

/// How something differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It is another.
    Changed,
}

/// One thing that differs between two versions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// JSON pointer into the skill object; functions go by their names.
    pub path: String,
    /// How it differs.
    pub kind: ChangeKind,
    /// Whether the newer version may do more by it, or says something else to models.
    pub grows: bool,
    /// What it was; null if it is new.
    pub from: Value,
    /// What it is; null if it is gone.
    pub to: Value,
    /// The same in a sentence.
    pub says: String,
}

/// Two versions of a skill and what differs.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The newer one.
    pub skill: Arc<RegisteredSkill>,
    /// What it is compared with; none if it is the first, which is compared with nothing.
    pub from: Option<Arc<RegisteredSkill>>,
    /// What differs.
    pub changes: Vec<Change>,
}

impl Difference {
    /// Whether the newer version may do more than the other, or says something else.
    pub fn grows(&self) -> bool {
        self.changes.iter().any(|change| change.grows)
    }
}

impl Change {
    fn new(path: impl Into<String>, (from, to): (Value, Value), grows: bool, says: String) -> Self {
        let kind = match (&from, &to) {
            (Value::Null, _) => ChangeKind::Added,
            (_, Value::Null) => ChangeKind::Removed,
            _ => ChangeKind::Changed,
        };
        Self { path: path.into(), kind, grows, from, to, says }
    }

    /// Whether somebody has to accept it, where that is asked for: limits bind in any case.
    fn needs_approval(&self) -> bool {
        self.grows && !self.path.starts_with("/limits/")
    }
}

impl Registry {
    /// What differs between a skill and another version of it: the one that `from` means, or the one
    /// before it, which is the highest lower version that does not wait for approval.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:read`; `not_found` for either; and as any read.
    pub async fn difference(
        &self,
        caller: &Caller,
        reference: &SkillRef,
        from: Option<&VersionSelector>,
    ) -> Result<Difference, Error> {
        let skill = self.get(caller, reference)?;
        let (owner, name) = (&skill.skill.owner, &skill.skill.name);
        let from = match from {
            Some(version) => Some(self.pick(owner, name, version).ok_or_else(|| Error::not_found("version"))?),
            None => self.before(&skill.skill),
        };
        let text = self.store.skill_md(skill.skill.id).await?;
        let changes = self.changes(from.as_ref().map(|from| &from.skill), (&skill.skill, text.as_deref())).await?;
        Ok(Difference { skill, from, changes })
    }

    /// The version before this one that somebody may have come to trust.
    fn before(&self, skill: &Skill) -> Option<Arc<RegisteredSkill>> {
        let versions = self.skills.read().versions(&skill.owner, &skill.name);
        let lower = versions.into_iter().filter(|old| old.skill.version < skill.version);
        let trusted = lower.filter(|old| !old.skill.approval.is_pending());
        trusted.max_by(|a, b| a.skill.version.cmp(&b.skill.version))
    }

    /// The same skill with what grew among its warnings, and waiting if somebody has to accept that.
    /// Called with `changes` held: what it is compared with stays.
    pub(super) async fn judged(&self, mut skill: Skill, skill_md: Option<&str>) -> Result<Skill, Error> {
        let before = self.before(&skill);
        let changes = self.changes(before.as_ref().map(|before| &before.skill), (&skill, skill_md)).await?;
        if before.is_some() {
            let grown = changes.iter().filter(|change| change.grows);
            skill.warnings.extend(grown.clone().take(MAX_WARNINGS).map(|change| change.says.clone()));
            if let Some(more) = grown.count().checked_sub(MAX_WARNINGS).filter(|more| *more > 0) {
                skill.warnings.push(format!("{more} more things grew; `skillvisor diff {}` has all", skill.address()));
            }
        }
        // Whoever runs the host has accepted what comes with it.
        let policy = if is_supplied(&skill) { ApprovalPolicy::None } else { self.approval };
        let waits = policy == ApprovalPolicy::Required && changes.iter().any(Change::needs_approval);
        skill.approval = if waits { Approval::Pending } else { Approval::None };
        Ok(skill)
    }

    /// Everything that differs, also in what their `SKILL.md`s say; that of the older one is looked up.
    async fn changes(
        &self,
        old: Option<&Skill>,
        (new, skill_md): (&Skill, Option<&str>),
    ) -> Result<Vec<Change>, Error> {
        let mut changes = changes((old, new), &|id| self.pinned(id));
        if let Some(old) = old {
            let before = self.store.skill_md(old.id).await?;
            changes.extend(functions::text(&old.version, before.as_deref(), skill_md));
        }
        Ok(changes)
    }
}

/// Finds the versions that pins mean.
type Find<'a> = dyn Fn(SkillId) -> Option<Arc<RegisteredSkill>> + Send + Sync + 'a;

/// Everything that differs; without an older one, what the new one is granted.
fn changes((old, new): (Option<&Skill>, &Skill), find: &Find<'_>) -> Vec<Change> {
    let mut changes = grants::changes((old, new), find);
    if let Some(old) = old {
        changes.extend(grants::limits(old, new));
        changes.extend(functions::changes(old, new));
    }
    changes
}

#[cfg(test)]
mod tests;
