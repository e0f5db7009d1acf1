//! All skills of an owner who is erased, and all that a key registered.

use std::sync::Arc;

use crate::model::{Caller, Error, KeyId, OwnerId, Skill, SkillId};
use crate::store::to_its_end;

use super::{RegisteredSkill, Registry};

impl Registry {
    /// Removes everything that an owner has in the registry and, in one transaction with it, the rows of what
    /// else it has; then the files of components that nobody has any more. May be done again.
    ///
    /// # Errors
    ///
    /// As the store gives them.
    pub(crate) async fn erase(self: &Arc<Self>, owner: &OwnerId) -> Result<(), Error> {
        let (registry, owner) = (Arc::clone(self), owner.clone());
        to_its_end(async move {
            let _alone = registry.changes.lock().await;
            let gone = registry.store.erase_belongings(owner.clone()).await?;
            registry.skills.write().remove_owner(&owner);
            registry.announce();
            gone.into_iter().for_each(|digest| registry.forget(digest));
            Ok(())
        })
        .await
    }

    /// Disables every skill that a key registered; gives their ids, also of those that were disabled before.
    ///
    /// # Errors
    ///
    /// As the store gives them.
    pub(crate) async fn disable_all_of(&self, caller: &Caller, key: &KeyId) -> Result<Vec<SkillId>, Error> {
        let is_its = |skill: &&Arc<RegisteredSkill>| skill.skill.registered_by == *key;
        let skills: Vec<_> = self.skills.read().by_id.values().filter(is_its).cloned().collect();
        for skill in skills.iter().filter(|skill| skill.skill.enabled) {
            let act = self.act(caller, "skill.update", &skill.skill);
            match self.replace_by(skill.skill.id, Some(act), |skill: &mut Skill| skill.enabled = false).await {
                // It was deleted meanwhile.
                Err(error) if error.code == crate::model::Code::NotFound => {}
                changed => drop(changed?),
            }
        }
        Ok(skills.iter().map(|skill| skill.skill.id).collect())
    }
}
