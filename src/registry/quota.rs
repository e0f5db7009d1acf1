//! What an owner's keys may leave lying here (`ceilings.storage`), as far as skills go.

use crate::model::{Code, Error, OwnerId, Skill, StorageCeilings};
use crate::store::ComponentRecord;

use super::Registry;

/// Most versions of one owner, whatever its keys say, all skills together: each is in memory and in
/// each listing.
const MAX_VERSIONS: u64 = 10_000;

impl Registry {
    /// How many versions an owner has.
    pub fn count(&self, owner: &OwnerId) -> u64 {
        self.skills.read().count(owner) as u64
    }

    /// How many it may have under these ceilings.
    pub fn most_versions(most: StorageCeilings) -> u64 {
        most.skills.unwrap_or(MAX_VERSIONS).min(MAX_VERSIONS)
    }

    /// Refuses what is more than its owner may have by the key that registers it. Called with
    /// `changes` held, so that two at one time do not both fit into the last place.
    pub(super) async fn require_room(
        &self,
        skill: &Skill,
        component: ComponentRecord,
        most: StorageCeilings,
    ) -> Result<(), Error> {
        let versions = Self::most_versions(most);
        self.skills.read().require_room(skill, usize::try_from(versions).unwrap_or(usize::MAX))?;
        let Some(most) = most.component_bytes else { return Ok(()) };
        if self.store.owned_component(skill.owner.clone(), component.digest).await?.is_some() {
            return Ok(());
        }
        let has = self.store.component_bytes(skill.owner.clone()).await?;
        if has.saturating_add(component.bytes) <= most {
            return Ok(());
        }
        let detail = format!(
            "this owner's components have {has} bytes, and with this one more than {most} \
             (ceilings.storage.componentBytes); delete skills that nobody needs"
        );
        Err(Error::new(Code::StorageFull, detail))
    }
}
