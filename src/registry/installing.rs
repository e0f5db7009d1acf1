//! Whose a skill becomes and what it is called, also where it came from somewhere else.

use crate::model::{Caller, Code, Error, OwnerId, Scope, SkillName, SkillSource};

use crate::sandbox::Inspection;
use crate::sources::Suggested;

use super::Registry;
use super::manifest::Manifest;

/// Where a component was installed from, and what is said there about it.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Where.
    pub source: SkillSource,
    /// What manifest and component leave open.
    pub suggested: Suggested,
}

impl Manifest {
    /// Takes what it does not say from the component, and else from where that came from.
    pub(super) fn complete(&mut self, inspection: &mut Inspection) -> Option<SkillSource> {
        let (source, said) = self.origin.take().map(|origin| (origin.source, origin.suggested)).unzip();
        let said = said.unwrap_or_default();
        let name = legal(inspection.name.take()).or_else(|| legal(said.name));
        self.name = self.name.take().or(name);
        self.version = self.version.take().or(inspection.version.take()).or(said.version);
        self.description = self.description.take().or(inspection.description.take()).or(said.description);
        source
    }
}

/// A name that somebody else chose, if it can be a skill's.
fn legal(name: Option<String>) -> Option<String> {
    name.filter(|name| name.parse::<SkillName>().is_ok())
}

/// Where a skill comes from, in one word.
pub(super) fn provider(source: Option<&SkillSource>) -> String {
    source.map_or_else(|| "local".to_owned(), |source| source.kind.clone())
}

impl Registry {
    /// Refuses what would be refused anyway, before anything is fetched for it.
    ///
    /// # Errors
    ///
    /// As [`Registry::register`].
    pub fn foresee(&self, caller: &Caller, manifest: &Manifest) -> Result<(), Error> {
        caller.key.require(Scope::SkillsWrite)?;
        let alone = manifest.check_alone()?;
        alone.name.as_ref().map_or(Ok(()), |name| require_visible(caller, name))?;
        require_global(&owner_for(caller, manifest)?, manifest.public)
    }
}

/// Refuses a name outside the key's allow-list: what a key may not see, it may not put in
/// another's way either.
pub(super) fn require_visible(caller: &Caller, name: &SkillName) -> Result<(), Error> {
    if caller.key.may_see(name) { Ok(()) } else { Err(Error::not_found("skill")) }
}

/// Refuses to tell strangers of what is one owner's.
pub(super) fn require_global(owner: &OwnerId, public: bool) -> Result<(), Error> {
    if !public || owner.is_system() {
        return Ok(());
    }
    Err(Error::at(Code::InvalidManifest, "/public", "only a skill of `system` can be public; leave it out"))
}

/// For whom a manifest is registered.
pub(super) fn owner_for(caller: &Caller, manifest: &Manifest) -> Result<OwnerId, Error> {
    let owner = manifest.owner.as_ref().unwrap_or(caller.owner());
    if caller.key.is_admin() {
        return Ok(owner.clone());
    }
    if owner != caller.owner() {
        return Err(Error::at(Code::Forbidden, "/owner", "only an admin key may register for another owner"));
    }
    // A key may act for `system`; what everybody runs is for admin keys alone (SPEC, section 2).
    if owner.is_system() {
        return Err(Error::new(Code::Forbidden, "only an admin key may register a global skill"));
    }
    Ok(owner.clone())
}
