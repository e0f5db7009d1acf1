//! Accepting what a version may do more than the one before it.

use std::sync::Arc;

use crate::model::{Approval, Caller, Code, Error, Scope, Skill, SkillRef, VersionSelector};
use crate::store::to_its_end;

use super::{RegisteredSkill, Registry, require_own};

impl Registry {
    /// Lets a version run that waits for approval; one that does not wait stays as it is. It is named
    /// by id or exact version, so that what is accepted is what was looked at.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:approve`; `malformed` for a range; `not_found` or
    /// `forbidden` if it is not this caller's; and as the store gives them.
    pub async fn approve(
        self: &Arc<Self>,
        caller: &Caller,
        reference: &SkillRef,
    ) -> Result<Arc<RegisteredSkill>, Error> {
        caller.key.require(Scope::SkillsApprove)?;
        require_one(reference, "approve")?;
        let found = self.resolve(caller, reference)?;
        require_own(&caller.key, &found.skill.owner)?;
        if !found.skill.approval.is_pending() {
            return Ok(found);
        }
        let (registry, key, at) = (Arc::clone(self), caller.key.id.clone(), self.clock.now_ms());
        let act = self.act(caller, "skill.approve", &found.skill);
        to_its_end(async move {
            let approved = Approval::Approved { by: key.clone(), at };
            let (id, seen) = (found.skill.id, Arc::clone(&found));
            let change = move |skill: &mut Skill| {
                if skill.approval.is_pending() && has_same_reach(skill, &seen.skill) {
                    skill.approval = approved;
                }
            };
            let changed = registry.replace_by(id, Some(act), change).await?;
            if changed.skill.approval.is_pending() {
                let detail = format!("{} was registered anew meanwhile; look at it again", changed.address);
                return Err(Error::new(Code::Conflict, detail));
            }
            tracing::info!(skill = %changed.address, key = %key, "A version was approved");
            Ok(changed)
        })
        .await
    }
}

/// Whether a version may touch the same as before: brought back after a deletion, it stands under
/// the ceilings of another key.
fn has_same_reach(skill: &Skill, seen: &Skill) -> bool {
    skill.frozen_network == seen.frozen_network
        && skill.frozen_workspace == seen.frozen_workspace
        && skill.frozen_secrets == seen.frozen_secrets
        && skill.frozen_skills == seen.frozen_skills
        && skill.frozen_reuse == seen.frozen_reuse
        && skill.pinned == seen.pinned
}

/// Refuses what may mean another version by the time it is carried out.
pub(super) fn require_one(reference: &SkillRef, verb: &str) -> Result<(), Error> {
    match reference {
        SkillRef::Name { version: VersionSelector::Exact(_), .. } | SkillRef::Id(_) | SkillRef::FunctionOf(..) => {
            Ok(())
        }
        SkillRef::Name { .. } => {
            Err(Error::new(Code::Malformed, format!("{verb} takes an id or an exact `name@version`")))
        }
    }
}
