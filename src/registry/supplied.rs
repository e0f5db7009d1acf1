//! Skills that come with the host: registered by nobody's key, for `system`.

use std::collections::BTreeMap;
use std::sync::Arc;

use semver::Version;

use crate::model::{
    Caller, Ceilings, Code, Digest, Door, Error, Handler, Key, KeyId, OwnerId, Scope, Skill, SkillName, SkillState,
    StorageCeilings, VersionSelector,
};
use crate::sandbox::Inspection;
use crate::store::{Act, ComponentRecord, SkillParts, to_its_end};

use super::manifest::Manifest;
use super::under_way::UnderWay;
use super::{RegisteredSkill, Registry, StagedComponent, reuse};

/// The key that stands for the host itself. No key that is made has this id.
const SUPPLIER: &str = "key_00000000000000000000000000000000";
/// Where the catalogue's skills come from, in one word.
const PROVIDER: &str = "catalogue";

/// A skill that was registered and is not compiled yet.
#[derive(Debug)]
pub(crate) struct Supplied(Arc<RegisteredSkill>);

impl Manifest {
    /// Which version of the catalogue's skill `name` it is of.
    ///
    /// # Errors
    ///
    /// `invalid_manifest` if it is of another, names an owner or a component, or leaves the version
    /// to its component.
    pub(crate) fn of_catalogue(&self, name: &SkillName) -> Result<Version, Error> {
        if self.name.as_deref() != Some(name.as_str()) {
            return Err(Error::at(Code::InvalidManifest, "/name", "must be the name of the folder"));
        }
        if self.owner.as_ref().is_some_and(|owner| !owner.is_system()) {
            return Err(Error::at(Code::InvalidManifest, "/owner", "the catalogue's skills are `system`'s"));
        }
        if self.component()?.is_some() {
            return Err(Error::at(Code::InvalidManifest, "/handler", "must be `wasm`: the component lies beside it"));
        }
        let missing = || Error::at(Code::InvalidManifest, "/version", "`version` is missing");
        let version = self.version.as_deref().ok_or_else(missing)?;
        Version::parse(version)
            .map_err(|error| Error::at(Code::InvalidManifest, "/version", format!("not a version: {error}")))
    }
}

impl Registry {
    /// Whether this version with this component is registered, whoever did that; a version of the
    /// catalogue's with something else in it is not.
    ///
    /// # Errors
    ///
    /// What is wrong with the manifest; `conflict` if an administrator has registered something else
    /// under that version, which then stays.
    pub(crate) fn has_supplied(&self, manifest: &Manifest, component: Digest) -> Result<bool, Error> {
        let checked = manifest.check(manifest.check_alone()?, supplier().key.max_limits())?;
        let Some(there) = self.pick(&OwnerId::system(), &checked.name, &VersionSelector::Exact(checked.version)) else {
            return Ok(false);
        };
        let there = &there.skill;
        if there.handler.digest() == component && there.manifest_digest == checked.digest {
            return Ok(true);
        }
        if is_supplied(there) {
            return Ok(false);
        }
        let detail =
            format!("{} was registered by an administrator, with other content; that one stays", there.address());
        Err(Error::new(Code::Conflict, detail))
    }

    /// The global versions that were deleted, as name and version.
    ///
    /// # Errors
    ///
    /// As any read.
    pub(crate) async fn deleted_globals(&self) -> Result<Vec<(String, String)>, Error> {
        self.store.deleted_versions(OwnerId::system()).await
    }

    /// Registers a skill of the catalogue, in the place of what the catalogue had under this version
    /// before. It still has to be compiled ([`Registry::compile_supplied`]).
    ///
    /// # Errors
    ///
    /// What is wrong with the manifest; and as the store gives them.
    pub(crate) async fn supply(
        self: &Arc<Self>,
        manifest: Manifest,
        component: StagedComponent,
        inspection: Inspection,
    ) -> Result<Supplied, Error> {
        let alone = manifest.check_alone()?;
        reuse::require_possible(manifest.reuse, &inspection)?;
        let record = ComponentRecord { digest: component.digest, bytes: component.bytes };
        let parts = SkillParts { component: record, skill_md: manifest.skill_md.clone() };
        let manifest = Manifest { owner: Some(OwnerId::system()), ..manifest };
        let skill = self.draft(&supplier(), (manifest, alone), inspection, Handler::Wasm { digest: record.digest })?;
        let skill = Skill { source_provider: PROVIDER.to_owned(), state: SkillState::Compiling, ..skill };
        let (made, now) = (serde_json::json!({ "digest": record.digest, "grants": skill.grants }), self.clock.now_ms());
        let act = Act::of_host("skill.supply", now).to(&skill.owner, skill.address()).with(&made);
        let registry = Arc::clone(self);
        to_its_end(async move {
            // Until its row is there, nothing else says that the component is wanted.
            let _under_way = UnderWay::begin(&registry, record.digest);
            let skill = registry.instead_of_the_old(skill).await?;
            let file = (parts, Some(component.file.as_path()));
            let kept = registry.keep(skill, file, (StorageCeilings::default(), act)).await?;
            Ok(Supplied(Arc::clone(kept.skill())))
        })
        .await
    }

    /// Takes away what the catalogue registered under this version before. What an administrator
    /// changed in it stays changed, and so does its id.
    async fn instead_of_the_old(&self, skill: Skill) -> Result<Skill, Error> {
        let _alone = self.changes.lock().await;
        let exact = VersionSelector::Exact(skill.version.clone());
        let old = self.pick(&skill.owner, &skill.name, &exact).filter(|old| is_supplied(&old.skill));
        let Some(old) = old else { return Ok(skill) };
        let old = &old.skill;
        let gone = self.store.erase_skill(old.id, old.handler.digest()).await?;
        self.skills.write().remove(old);
        if gone {
            self.forget(old.handler.digest());
        }
        tracing::info!(skill = %old.address(), "A skill of the catalogue is replaced by what this host comes with");
        let (enabled, mode, tags) = (old.enabled, old.mode, old.tags.clone());
        Ok(Skill { id: old.id, created_at: old.created_at, enabled, mode, tags, ..skill })
    }

    /// Has skills of the catalogue compiled, in this order and beside everything else.
    pub(crate) fn compile_supplied(self: &Arc<Self>, supplied: Vec<Supplied>) {
        self.line_up_now(supplied.into_iter().map(|Supplied(skill)| skill).collect());
    }

    /// Leaves out what the catalogue registered at an earlier start and has no longer: other names,
    /// and versions above those it has now. Their rows stay, for another start.
    pub(crate) fn withdraw_all_but(&self, kept: &BTreeMap<SkillName, Version>) {
        let mut index = self.skills.write();
        let is_gone = |skill: &&Arc<RegisteredSkill>| {
            let skill = &skill.skill;
            is_supplied(skill) && kept.get(&skill.name).is_none_or(|version| skill.version > *version)
        };
        let gone: Vec<_> = index.by_id.values().filter(is_gone).cloned().collect();
        for skill in gone {
            tracing::info!(skill = %skill.address, "A skill of an earlier catalogue is left out");
            index.remove(&skill.skill);
        }
    }
}

/// Whether the catalogue has registered it.
pub(super) fn is_supplied(skill: &Skill) -> bool {
    skill.owner.is_system() && skill.registered_by.as_str() == SUPPLIER
}

/// The host as somebody who registers: for `system`, under no ceiling.
fn supplier() -> Caller {
    let id: KeyId = SUPPLIER.parse().unwrap_or_else(|_| KeyId::generate());
    let key = Key {
        id,
        owner: OwnerId::system(),
        name: PROVIDER.to_owned(),
        scopes: vec![Scope::Admin],
        skills: None,
        ceilings: Ceilings::default(),
        expires_at: None,
        created_at: 0,
        revoked_at: None,
        grace_until: None,
    };
    Caller { key: Arc::new(key), door: Door::Library }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_registers_under_an_id_of_its_own() {
        assert_eq!(supplier().key.id.as_str(), SUPPLIER);
    }

    #[test]
    fn a_folder_says_its_own_name_and_version_and_nothing_of_owners() {
        let name: SkillName = "a".parse().unwrap();
        let of = |text: &str| Manifest::parse(text).unwrap().of_catalogue(&name);
        assert_eq!(of(r#"{"name":"a","version":"1.2.0"}"#).unwrap(), Version::new(1, 2, 0));
        let digest = Digest::of(b"");
        for (text, place) in [
            (r#"{"name":"b","version":"1.0.0"}"#, "/name"),
            (r#"{"version":"1.0.0"}"#, "/name"),
            (r#"{"name":"a"}"#, "/version"),
            (r#"{"name":"a","version":"1"}"#, "/version"),
            (r#"{"name":"a","version":"1.0.0","owner":"team"}"#, "/owner"),
            (&format!(r#"{{"name":"a","version":"1.0.0","handler":"{digest}"}}"#), "/handler"),
        ] {
            assert_eq!(of(text).unwrap_err().fields[0].pointer, place, "{text}");
        }
    }
}
