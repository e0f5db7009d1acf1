//! After a start: making ready what is not, or no longer.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::model::{Code, Error, Fuel, Limits, Skill, SkillState};
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
        self.line_up_now(waiting);
    }

    /// Lines up all, or as many as there is room for, and the rest as the queue empties.
    pub(super) fn line_up_now(self: &Arc<Self>, waiting: Vec<Arc<RegisteredSkill>>) {
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
        let mut under_way = UnderWay::begin(self, digest);
        let preparing = self.sandbox.prepare(self.request(skill, false))?;
        under_way.preparing = Some(preparing);
        tokio::spawn(Arc::clone(self).finish_preparing(skill.clone(), under_way));
        Ok(())
    }

    fn request(&self, skill: &Skill, unmetered: bool) -> PrepareRequest {
        let digest = skill.handler.digest();
        let file = self.blob(digest);
        let bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
        PrepareRequest { owner: skill.owner.clone(), handler: skill.handler.clone(), digest, file, bytes, unmetered }
    }

    /// Has a skill that asks for it compiled without counting fuel, before it is first run.
    pub(super) fn prepare_unmetered(self: &Arc<Self>, skill: &Skill) {
        if skill.limits.fuel != Fuel::Unlimited {
            return;
        }
        let mut under_way = UnderWay::begin(self, skill.handler.digest());
        let preparing = self.sandbox.prepare(self.request(skill, true));
        tokio::spawn(async move {
            if let Ok(preparing) = preparing {
                // Whoever runs it hears what is wrong.
                let _ = (&mut under_way.preparing.insert(preparing).ready).await;
            }
        });
    }

    /// Waits until a skill that can run can run under these limits, too: what runs without
    /// counting fuel is compiled once more, when that is first asked for.
    ///
    /// # Errors
    ///
    /// `compiling` if that takes longer than `deadline`, `overloaded` if too much is being compiled,
    /// and why it cannot be compiled.
    pub async fn ready_under(
        self: &Arc<Self>,
        limits: &Limits,
        skill: &RegisteredSkill,
        deadline: Instant,
    ) -> Result<(), Error> {
        if limits.fuel != Fuel::Unlimited {
            return Ok(());
        }
        let skill = &skill.skill;
        let mut under_way = UnderWay::begin(self, skill.handler.digest());
        let preparing = under_way.preparing.insert(self.sandbox.prepare(self.request(skill, true))?);
        match tokio::time::timeout_at(deadline.into(), &mut preparing.ready).await {
            Ok(ready) => ready.map_err(Error::internal)?,
            Err(_) => {
                let detail = format!("{} is still being compiled for unlimited fuel", skill.address());
                Err(Error::new(Code::Compiling, detail).retry_after(5))
            }
        }
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
