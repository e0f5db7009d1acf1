//! All skills in memory, by id and by name.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{Code, Error, OwnerId, Skill, SkillId, SkillName};

use super::RegisteredSkill;

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) by_id: HashMap<SkillId, Arc<RegisteredSkill>>,
    by_name: HashMap<(OwnerId, SkillName), Vec<SkillId>>,
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

    /// Refuses a version that is new where its owner has `most`.
    pub(super) fn require_room(&self, skill: &Skill, most: usize) -> Result<(), Error> {
        let known = self.versions(&skill.owner, &skill.name).iter().any(|old| old.skill.version == skill.version);
        if known || self.by_id.values().filter(|old| old.skill.owner == skill.owner).count() < most {
            return Ok(());
        }
        let detail = format!("this owner has {most} versions of skills, which is the most; delete some of them");
        Err(Error::new(Code::StorageFull, detail))
    }

    pub(super) fn versions(&self, owner: &OwnerId, name: &SkillName) -> Vec<Arc<RegisteredSkill>> {
        let ids = self.by_name.get(&(owner.clone(), name.clone()));
        ids.into_iter().flatten().filter_map(|id| self.by_id.get(id)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{Digest, Grants, Handler, KeyId, Limits, Mode, Schemas, SkillState};

    use super::*;

    fn skill(owner: &str, version: &str) -> Skill {
        Skill {
            id: SkillId::generate(),
            owner: owner.parse().unwrap(),
            name: "a".parse().unwrap(),
            version: version.parse().unwrap(),
            description: String::new(),
            handler: Handler::Wasm { digest: Digest::of(b"") },
            schema: Schemas::default(),
            enabled: true,
            mode: Mode::On,
            tags: Vec::new(),
            source_provider: "local".into(),
            grants: Grants::default(),
            limits: Limits::DEFAULT,
            frozen_limits: Limits::DEFAULT,
            frozen_network: Vec::new(),
            retry: crate::model::Retry::default(),
            frozen_workspace: crate::model::Access::None,
            frozen_secrets: Some(Vec::new()),
            frozen_skills: Some(Vec::new()),
            pinned: Vec::new(),
            functions: Vec::new(),
            imports: Vec::new(),
            warnings: Vec::new(),
            state: SkillState::Ready,
            problem: None,
            registered_by: KeyId::generate(),
            manifest_digest: Digest::of(b""),
            created_at: 0,
            updated_at: 0,
        }
    }

    #[test]
    fn an_owner_with_the_most_versions_gets_no_new_one_and_keeps_what_it_has() {
        let mut index = Index::default();
        for version in ["1.0.0", "1.1.0"] {
            index.require_room(&skill("full", version), 2).unwrap();
            index.put(RegisteredSkill::new(skill("full", version)));
        }
        assert_eq!(index.require_room(&skill("full", "1.2.0"), 2).unwrap_err().code, Code::StorageFull);
        index.require_room(&skill("full", "1.1.0"), 2).unwrap();
        index.require_room(&skill("other", "1.2.0"), 2).unwrap();
    }
}
