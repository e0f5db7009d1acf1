//! Looking skills up for somebody who wants to see them, not to run them.

use std::sync::Arc;

use crate::model::{Caller, Code, Error, OwnerId, Scope, SkillName, SkillRef};

use super::{RegisteredSkill, Registry};

impl Registry {
    /// The skill that `reference` means for this caller; see [`Registry::resolve`].
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:read`; `not_found`.
    pub fn get(&self, caller: &Caller, reference: &SkillRef) -> Result<Arc<RegisteredSkill>, Error> {
        caller.key.require(Scope::SkillsRead)?;
        self.resolve(caller, reference)
    }

    /// The skill that `reference` means for this caller, and the file with its component, open.
    ///
    /// # Errors
    ///
    /// As [`Registry::get`]; `internal` if the file cannot be read.
    pub async fn component(
        &self,
        caller: &Caller,
        reference: &SkillRef,
    ) -> Result<(Arc<RegisteredSkill>, tokio::fs::File), Error> {
        let found = self.get(caller, reference)?;
        if !found.skill.handler.program_text().is_empty() {
            return Err(Error::new(Code::NotFound, "this skill has no component; its handler says all of it"));
        }
        let file = tokio::fs::File::open(self.blob(found.skill.handler.digest())).await;
        match file {
            Ok(file) => Ok((found, file)),
            // Deleted since we looked; else it is a fault of ours.
            Err(_) if self.get(caller, reference).is_err() => Err(Error::not_found("skill")),
            Err(error) => Err(Error::internal(error)),
        }
    }

    /// The skill that `reference` means for this caller, and the WIT of its component.
    ///
    /// # Errors
    ///
    /// As [`Registry::get`]; `not_found` for what has none, `not_supported` where it cannot be
    /// printed, `overloaded` if others wait.
    pub async fn wit(&self, caller: &Caller, reference: &SkillRef) -> Result<(Arc<RegisteredSkill>, String), Error> {
        let found = self.get(caller, reference)?;
        let digest = found.skill.handler.digest();
        let text = self.sandbox.wit(digest, self.blob(digest)).await?;
        Ok((found, text))
    }

    /// Every version of a skill, named without a version or by the id of one: by its name as
    /// [`Registry::versions`], by an id those of the same owner and name.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:read`; `malformed` for a version; `not_found`.
    pub fn line(&self, caller: &Caller, reference: &SkillRef) -> Result<Vec<Arc<RegisteredSkill>>, Error> {
        caller.key.require(Scope::SkillsRead)?;
        let (owner, name) = self.line_of(caller, reference)?;
        if let SkillRef::Name { .. } = reference {
            return self.versions(caller, &name);
        }
        Ok(highest_first(self.skills.read().versions(&owner, &name)))
    }

    /// The skill that `reference` means for this caller, and the `SKILL.md` that it came with.
    ///
    /// # Errors
    ///
    /// As [`Registry::get`]; `not_found` if it came without.
    pub async fn skill_md(
        &self,
        caller: &Caller,
        reference: &SkillRef,
    ) -> Result<(Arc<RegisteredSkill>, String), Error> {
        let found = self.get(caller, reference)?;
        let text = self.store.skill_md(found.skill.id).await?;
        let text = text.ok_or_else(|| Error::new(Code::NotFound, "this skill was registered without a SKILL.md"))?;
        Ok((found, text))
    }

    /// Every version of a skill that this caller may name, highest first, own ones hiding
    /// global ones. None is not an error.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:read`.
    pub fn versions(&self, caller: &Caller, name: &SkillName) -> Result<Vec<Arc<RegisteredSkill>>, Error> {
        let key = &caller.key;
        key.require(Scope::SkillsRead)?;
        if !key.may_see(name) {
            return Ok(Vec::new());
        }
        let index = self.skills.read();
        let mut found = index.versions(&key.owner, name);
        if !key.owner.is_system() {
            found.extend(index.versions(&OwnerId::system(), name));
        }
        drop(index);
        Ok(highest_first(found))
    }
}

/// The versions in order; of equal ones the first.
fn highest_first(mut found: Vec<Arc<RegisteredSkill>>) -> Vec<Arc<RegisteredSkill>> {
    // Stable: of equal versions the own one stays first.
    found.sort_by(|a, b| b.skill.version.cmp(&a.skill.version));
    found.dedup_by(|b, a| a.skill.version == b.skill.version);
    found
}
