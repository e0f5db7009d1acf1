//! After a start: making ready what is not, or no longer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::model::{Code, Error, Skill, SkillState};
use crate::sandbox::PrepareRequest;

use super::under_way::UnderWay;
use super::{RegisteredSkill, Registry};

/// How long to wait before what found no place in the queue is lined up again.
const AGAIN: Duration = Duration::from_secs(1);

impl Registry {
    /// Makes ready in the background what is not, or no longer: code of another engine.
    pub(super) fn prepare_all(self: &Arc<Self>) {
        let mut waiting = Vec::new();
        let skills: Vec<_> = self.skills.read().by_id.values().cloned().collect();
        for registered in skills {
            let skill = &registered.skill;
            let is_done = skill.state == SkillState::Ready && self.sandbox.is_prepared(skill.handler.digest());
            if is_done || skill.state == SkillState::Failed {
                continue;
            }
            // Only in memory: to the store it is ready, and will be again.
            let compiling = Skill { state: SkillState::Compiling, problem: None, ..skill.clone() };
            self.skills.write().put(RegisteredSkill::new(compiling));
            waiting.push(registered);
        }
        let waiting = self.line_up(waiting);
        if !waiting.is_empty() {
            tokio::spawn(line_up_all(Arc::downgrade(self), waiting));
        }
    }

    /// Lines up what the queue has room for, and gives back the rest.
    fn line_up(self: &Arc<Self>, waiting: Vec<Arc<RegisteredSkill>>) -> Vec<Arc<RegisteredSkill>> {
        let mut left = Vec::new();
        for registered in waiting {
            let skill = &registered.skill;
            // Deleted, or made ready by another upload of the same bytes.
            let waits = |found: &Arc<RegisteredSkill>| found.skill.state == SkillState::Compiling;
            if !self.skills.read().by_id.get(&skill.id).is_some_and(waits) {
                continue;
            }
            match self.prepare(skill) {
                Ok(()) => {}
                Err(error) if error.code == Code::Overloaded => left.push(registered),
                Err(error) => {
                    tracing::error!(skill.id = %skill.id, "A skill cannot be made ready: {error}");
                    let (state, problem) = (SkillState::Unavailable, Some(error.detail));
                    self.skills.write().put(RegisteredSkill::new(Skill { state, problem, ..skill.clone() }));
                    self.announce();
                }
            }
        }
        left
    }

    fn prepare(self: &Arc<Self>, skill: &Skill) -> Result<(), Error> {
        let digest = skill.handler.digest();
        let file = self.blob(digest);
        let bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
        let mut under_way = UnderWay::begin(self, digest);
        let preparing = self.sandbox.prepare(PrepareRequest { owner: skill.owner.clone(), digest, file, bytes })?;
        under_way.preparing = Some(preparing);
        tokio::spawn(Arc::clone(self).finish_preparing(skill.clone(), under_way));
        Ok(())
    }
}

/// Lines up the rest as the queue empties, as long as there is a registry.
async fn line_up_all(registry: Weak<Registry>, mut waiting: Vec<Arc<RegisteredSkill>>) {
    while !waiting.is_empty() {
        tokio::time::sleep(AGAIN).await;
        let Some(registry) = registry.upgrade() else { return };
        waiting = registry.line_up(waiting);
    }
}
