//! All skills in memory, by id and by name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use semver::Version;

use crate::model::{Alias, Code, Error, OwnerId, Skill, SkillId, SkillName, VersionSelector};
use crate::store::AliasRecord;

use super::RegisteredSkill;

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) by_id: HashMap<SkillId, Arc<RegisteredSkill>>,
    by_name: HashMap<(OwnerId, SkillName), Vec<SkillId>>,
    aliases: HashMap<(OwnerId, SkillName), BTreeMap<Alias, Version>>,
}

impl Index {
    pub(super) fn put(&mut self, skill: Arc<RegisteredSkill>) {
        let key = (skill.skill.owner.clone(), skill.skill.name.clone());
        let ids = self.by_name.entry(key).or_default();
        if !ids.contains(&skill.skill.id) {
            ids.push(skill.skill.id);
        }
        self.by_id.insert(skill.skill.id, skill);
    }

    pub(super) fn remove(&mut self, skill: &Skill) {
        self.by_id.remove(&skill.id);
        let key = (skill.owner.clone(), skill.name.clone());
        if let Some(ids) = self.by_name.get_mut(&key) {
            ids.retain(|id| *id != skill.id);
            if ids.is_empty() {
                self.by_name.remove(&key);
            }
        }
    }

    /// Removes all that an owner has.
    pub(super) fn remove_owner(&mut self, owner: &OwnerId) {
        self.by_id.retain(|_, skill| skill.skill.owner != *owner);
        self.by_name.retain(|(known, _), _| known != owner);
        self.aliases.retain(|(known, _), _| known != owner);
    }

    /// Refuses a version that is new where its owner has `most`.
    pub(super) fn require_room(&self, skill: &Skill, most: usize) -> Result<(), Error> {
        let known = self.versions(&skill.owner, &skill.name).iter().any(|old| old.skill.version == skill.version);
        if known || self.count(&skill.owner) < most {
            return Ok(());
        }
        let detail = format!("this owner has {most} versions of skills, which is the most; delete some of them");
        Err(Error::new(Code::StorageFull, detail))
    }

    /// How many versions an owner has.
    pub(super) fn count(&self, owner: &OwnerId) -> usize {
        self.by_id.values().filter(|skill| skill.skill.owner == *owner).count()
    }

    pub(super) fn versions(&self, owner: &OwnerId, name: &SkillName) -> Vec<Arc<RegisteredSkill>> {
        self.line(&(owner.clone(), name.clone())).cloned().collect()
    }

    fn line(&self, key: &(OwnerId, SkillName)) -> impl Iterator<Item = &Arc<RegisteredSkill>> {
        self.by_name.get(key).into_iter().flatten().filter_map(|id| self.by_id.get(id))
    }

    /// The version that is meant. `latest` and ranges pass over what waits for approval as long as
    /// something else fits: a version that nobody accepted yet takes no caller away from one that runs.
    pub(super) fn pick(
        &self,
        owner: &OwnerId,
        name: &SkillName,
        version: &VersionSelector,
    ) -> Option<Arc<RegisteredSkill>> {
        let key = (owner.clone(), name.clone());
        let highest = |fits: &dyn Fn(&Version) -> bool| {
            let fitting = self.line(&key).filter(|skill| fits(&skill.skill.version));
            let order = |skill: &Arc<RegisteredSkill>| !skill.skill.approval.is_pending();
            let by_version = |a: &Arc<RegisteredSkill>, b: &Arc<RegisteredSkill>| a.skill.version.cmp(&b.skill.version);
            fitting.max_by(|a, b| order(a).cmp(&order(b)).then_with(|| by_version(a, b))).cloned()
        };
        match version {
            VersionSelector::Exact(exact) => highest(&|version| version == exact),
            VersionSelector::Range(range) => highest(&|version| range.matches(version)),
            VersionSelector::Latest => highest(&|version| version.pre.is_empty()).or_else(|| highest(&|_| true)),
            VersionSelector::Alias(word) => {
                let exact = self.aliases.get(&key)?.get(word.as_str())?;
                highest(&|version| version == exact)
            }
        }
    }

    /// Where an alias points.
    pub(super) fn alias(&self, owner: &OwnerId, name: &SkillName, alias: &str) -> Option<&Version> {
        self.aliases.get(&(owner.clone(), name.clone()))?.get(alias)
    }

    /// How many aliases a skill has, all versions together.
    pub(super) fn alias_count(&self, owner: &OwnerId, name: &SkillName) -> usize {
        self.aliases.get(&(owner.clone(), name.clone())).map_or(0, BTreeMap::len)
    }

    /// The aliases that stand for this version.
    pub(super) fn aliases_of(&self, skill: &Skill) -> Vec<Alias> {
        let all = self.aliases.get(&(skill.owner.clone(), skill.name.clone()));
        let own = all.into_iter().flatten().filter(|(_, version)| **version == skill.version);
        own.map(|(alias, _)| alias.clone()).collect()
    }

    pub(super) fn put_alias(&mut self, record: AliasRecord) {
        let AliasRecord { owner, name, alias, version } = record;
        self.aliases.entry((owner, name)).or_default().insert(alias, version);
    }

    pub(super) fn remove_alias(&mut self, owner: &OwnerId, name: &SkillName, alias: &Alias) {
        let key = (owner.clone(), name.clone());
        if let Some(aliases) = self.aliases.get_mut(&key) {
            aliases.remove(alias);
            if aliases.is_empty() {
                self.aliases.remove(&key);
            }
        }
    }
}

#[cfg(test)]
pub(in crate::registry) mod tests;
