//! All skills that somebody may see, in an order that lasts.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use semver::Version;

use crate::model::{Caller, Code, Digest, Error, Key, Scope, Skill, SkillId, SkillName};

use super::{RegisteredSkill, Registry, may_read};

/// Where a skill stands in a caller's listing. It is a place also when its skill is gone, so
/// that a listing goes on from there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    name: SkillName,
    version: Version,
    is_foreign: bool,
    id: SkillId,
}

impl Place {
    /// The place of a skill in this caller's listing.
    pub fn of(caller: &Caller, registered: &RegisteredSkill) -> Self {
        let skill = &registered.skill;
        let is_foreign = skill.owner != *caller.owner();
        Self { name: skill.name.clone(), version: skill.version.clone(), is_foreign, id: skill.id }
    }
}

/// The place as a word that needs no quoting anywhere.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let foreign = u8::from(self.is_foreign);
        f.write_str(&hex::encode(format!("{}@{}@{foreign}@{}", self.name, self.version, self.id)))
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let read = || {
            let text = String::from_utf8(hex::decode(text).ok()?).ok()?;
            let [name, version, foreign, id] = text.split('@').collect::<Vec<_>>().try_into().ok()?;
            let is_foreign = foreign == "1";
            Some(Self { name: name.parse().ok()?, version: version.parse().ok()?, is_foreign, id: id.parse().ok()? })
        };
        read().ok_or_else(|| Error::new(Code::Malformed, "the cursor is not a `nextCursor` of this list"))
    }
}

impl Registry {
    /// Whether a key may name a component instead of sending it. Under another name it would
    /// run what its allow-list keeps from it.
    pub(super) fn may_reuse(&self, key: &Key, digest: Digest) -> bool {
        let visible = |skill: &Skill| may_read(key, &skill.owner) && key.may_see(&skill.name);
        let same = |skill: &Skill| skill.handler.digest() == digest && visible(skill);
        key.skills.is_none() || self.skills.read().by_id.values().any(|found| same(&found.skill))
    }

    /// Every skill this caller may see, own ones hiding global ones of the same `name@version`,
    /// in the order of their [`Place`]s.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:read`.
    pub fn list(&self, caller: &Caller) -> Result<Vec<Arc<RegisteredSkill>>, Error> {
        let key = &caller.key;
        key.require(Scope::SkillsRead)?;
        let index = self.skills.read();
        let mut found: Vec<_> = index
            .by_id
            .values()
            .filter(|skill| may_read(key, &skill.skill.owner) && key.may_see(&skill.skill.name))
            .cloned()
            .collect();
        drop(index);
        found.sort_by_cached_key(|skill| Place::of(caller, skill));
        if !key.is_admin() {
            found.dedup_by(|b, a| a.skill.name == b.skill.name && a.skill.version == b.skill.version);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written_and_needs_no_quoting() {
        let (version, id) = ("1.0.0-rc.1+build.5".parse().unwrap(), SkillId::generate());
        let place = Place { name: "a-b".parse().unwrap(), version, is_foreign: true, id };
        let text = place.to_string();
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{text}");
        assert_eq!(text.parse::<Place>().unwrap(), place);
        let garbage =
            [hex::encode("a@1.0.0"), hex::encode(format!("a@1.0.0@0@{id}@x")), "zz".to_owned(), String::new()];
        for text in garbage {
            assert_eq!(text.parse::<Place>().unwrap_err().code, Code::Malformed, "{text}");
        }
    }
}
