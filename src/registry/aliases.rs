//! Words that stand for versions: `name@stable`. Moving one back is a rollback.

use std::sync::Arc;

use semver::Version;

use crate::model::{Alias, Caller, Code, Error, OwnerId, Scope, Skill, SkillName, SkillRef, VersionSelector};
use crate::store::{Act, AliasRecord, to_its_end};

use super::{RegisteredSkill, Registry, may_read, require_own};

/// Most aliases of one skill.
const MAX_ALIASES: usize = 64;

/// Where an alias is to point.
#[derive(Clone, Debug)]
pub struct AliasMove {
    /// The word.
    pub alias: Alias,
    /// The version that it stands for from now on.
    pub to: Version,
    /// Where it must point now; nothing if that does not matter.
    pub from: Option<Version>,
}

impl Registry {
    /// The aliases that stand for this version, in the order of the alphabet.
    pub fn aliases(&self, skill: &Skill) -> Vec<Alias> {
        self.skills.read().aliases_of(skill)
    }

    /// Lets an alias of a skill, named without a version or by the id of one, stand for a version;
    /// gives that version.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:write`; `not_found` or `forbidden` if the skill or the
    /// version is not this caller's; `conflict` if the alias does not point where `from` says;
    /// `approval_required` if the version waits for approval; `storage_full` for too many.
    pub async fn move_alias(
        self: &Arc<Self>,
        caller: &Caller,
        reference: &SkillRef,
        wanted: AliasMove,
    ) -> Result<Arc<RegisteredSkill>, Error> {
        caller.key.require(Scope::SkillsWrite)?;
        let (owner, name) = self.line_of(caller, reference)?;
        require_own(&caller.key, &owner)?;
        let (registry, key) = (Arc::clone(self), caller.key.id.clone());
        let act = Act::of(caller, "alias.move", self.clock.now_ms()).to(&owner, format!("{name}@{}", wanted.alias));
        to_its_end(async move {
            let _alone = registry.changes.lock().await;
            let found = registry.movable(&owner, &name, &wanted)?;
            let AliasMove { alias, to, .. } = wanted;
            let record = AliasRecord { owner, name, alias, version: to };
            let act = act.with(&serde_json::json!({ "version": record.version }));
            registry.store.by(act).put_alias(record.clone(), key.clone(), registry.clock.now_ms()).await?;
            tracing::info!(skill = %found.address, alias = %record.alias, key = %key, "An alias was moved");
            registry.skills.write().put_alias(record);
            registry.announce();
            Ok(found)
        })
        .await
    }

    /// The version that an alias is to stand for, if it may.
    fn movable(&self, owner: &OwnerId, name: &SkillName, wanted: &AliasMove) -> Result<Arc<RegisteredSkill>, Error> {
        let index = self.skills.read();
        let found = index.pick(owner, name, &VersionSelector::Exact(wanted.to.clone()));
        let found = found.ok_or_else(|| Error::not_found("version"))?;
        if found.skill.approval.is_pending() {
            let detail = format!("{} waits for approval; approve it before an alias points to it", found.address);
            return Err(Error::new(Code::ApprovalRequired, detail));
        }
        let current = index.alias(owner, name, wanted.alias.as_str());
        if wanted.from.is_some() && wanted.from.as_ref() != current {
            let at = current.map_or_else(|| "is not there".to_owned(), |at| format!("points to {at}"));
            return Err(Error::new(Code::Conflict, format!("`{}` {at}, and not where `from` says", wanted.alias)));
        }
        if current.is_none() && index.alias_count(owner, name) >= MAX_ALIASES {
            let detail = format!("this skill has {MAX_ALIASES} aliases, which is the most; delete some of them");
            return Err(Error::new(Code::StorageFull, detail));
        }
        Ok(found)
    }

    /// Takes an alias away.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:write`; `not_found` or `forbidden` if it is not this caller's.
    pub async fn remove_alias(
        self: &Arc<Self>,
        caller: &Caller,
        reference: &SkillRef,
        alias: Alias,
    ) -> Result<(), Error> {
        caller.key.require(Scope::SkillsWrite)?;
        let (owner, name) = self.line_of(caller, reference)?;
        require_own(&caller.key, &owner)?;
        let registry = Arc::clone(self);
        let act = Act::of(caller, "alias.remove", self.clock.now_ms()).to(&owner, format!("{name}@{alias}"));
        to_its_end(async move {
            let _alone = registry.changes.lock().await;
            if registry.skills.read().alias(&owner, &name, alias.as_str()).is_none() {
                return Err(Error::not_found("alias"));
            }
            registry.store.by(act).delete_alias(owner.clone(), name.clone(), alias.clone()).await?;
            registry.skills.write().remove_alias(&owner, &name, &alias);
            registry.announce();
            Ok(())
        })
        .await
    }

    /// Whose skill of which name a reference means, all its versions together: named without a version,
    /// own before global, or by the id of any of them.
    ///
    /// # Errors
    ///
    /// `malformed` for a version or a function; `not_found`.
    pub(super) fn line_of(&self, caller: &Caller, reference: &SkillRef) -> Result<(OwnerId, SkillName), Error> {
        let key = &caller.key;
        let index = self.skills.read();
        let found = match reference {
            SkillRef::Id(id) => {
                let skill = index.by_id.get(id).filter(|skill| may_read(key, &skill.skill.owner));
                skill.map(|skill| (skill.skill.owner.clone(), skill.skill.name.clone()))
            }
            SkillRef::Name { name, version: VersionSelector::Latest, function: None } => {
                let owners = [key.owner.clone(), OwnerId::system()];
                let owner = owners.into_iter().find(|owner| !index.versions(owner, name).is_empty());
                owner.map(|owner| (owner, name.clone()))
            }
            SkillRef::FunctionOf(..) | SkillRef::Name { .. } => {
                return Err(Error::new(Code::Malformed, "name the skill without a version, or give the id of one"));
            }
        };
        found.filter(|(_, name)| key.may_see(name)).ok_or_else(|| Error::not_found("skill"))
    }

    /// Refuses to take away a version that an alias stands for. Called with `changes` held.
    pub(super) fn require_no_alias(&self, skill: &Skill) -> Result<(), Error> {
        let aliases = self.aliases(skill);
        let Some(first) = aliases.first() else { return Ok(()) };
        let detail = format!("the alias `{first}` stands for {}; move it or delete it first", skill.address());
        Err(Error::new(Code::Conflict, detail))
    }
}
