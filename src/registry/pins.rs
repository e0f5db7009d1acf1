//! Which versions the names in `grants.skills` mean: found once, when a skill is registered.

use std::sync::Arc;

use crate::model::{Caller, Code, Error, OwnerId, Pin, SkillId, SkillRef, VersionSelector};

use super::{RegisteredSkill, Registry};

/// Most skills that one skill may call.
const MAX_SKILLS: usize = 64;

impl Registry {
    /// What `grants` mean for a skill of `owner`: its owner's skills before the global ones, of
    /// those that the registering key may see.
    ///
    /// # Errors
    ///
    /// `invalid_manifest`, with the place, for what cannot be named so, is named twice or is not there.
    pub(super) fn pins(&self, caller: &Caller, owner: &OwnerId, grants: &[String]) -> Result<Vec<Pin>, Error> {
        if grants.len() > MAX_SKILLS {
            let detail = format!("has more than {MAX_SKILLS} skills");
            return Err(Error::at(Code::InvalidManifest, "/grants/skills", detail));
        }
        let mut pins: Vec<Pin> = Vec::with_capacity(grants.len());
        for (at, grant) in grants.iter().enumerate() {
            let wrong = |detail: &str| Error::at(Code::InvalidManifest, format!("/grants/skills/{at}"), detail);
            let Ok(SkillRef::Name { name, version, function: None }) = grant.parse() else {
                return Err(wrong("is not the name of a skill, or `name@range`"));
            };
            if matches!(version, VersionSelector::Alias(_)) {
                return Err(wrong("is an alias; name a version or a range"));
            }
            if pins.iter().any(|pin| pin.name == name) {
                return Err(wrong("names a skill that is named before; each skill can be named once"));
            }
            let system = OwnerId::system();
            let found = [owner, &system].iter().find_map(|owner| self.pick(owner, &name, &version));
            let found = found.filter(|found| caller.key.may_see(&found.skill.name));
            let found =
                found.ok_or_else(|| wrong("there is no such skill; register it before the one that calls it"))?;
            let version = found.skill.version.clone();
            pins.push(Pin { grant: grant.clone(), id: found.skill.id, name, version });
        }
        Ok(pins)
    }

    /// The skill that a pin means, if it is still there.
    pub fn pinned(&self, id: SkillId) -> Option<Arc<RegisteredSkill>> {
        self.skills.read().by_id.get(&id).cloned()
    }
}

/// What to say of a skill that the ceilings of the registering key do not allow to be called.
pub(super) fn beyond(ceilings: Option<&[String]>, pin: &Pin) -> Option<String> {
    let grant = &pin.grant;
    (!pin.is_within(ceilings)).then(|| format!("grants.skills {grant}: the ceilings of this key do not allow it"))
}
