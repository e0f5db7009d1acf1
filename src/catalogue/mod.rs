//! The skills that come with the host, and those that its operator puts beside them.
//!
//! They are registered for `system` before anybody is served, and are compiled afterwards. What was
//! registered by an earlier start is left as it is where it is still the same.

mod builtin;
mod folder;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;

use crate::model::{Digest, Disabled, Error, SkillName};
use crate::registry::{Manifest, Registry, StagedComponent, Supplied};
use crate::sandbox::look_into;

use self::folder::Folder;

/// Which skills a host has without anybody having uploaded them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogueSettings {
    /// Those that are left out.
    pub disabled: Disabled,
    /// A directory of skill folders. One that has the name of a built-in skill takes its place.
    pub dir: Option<PathBuf>,
}

impl CatalogueSettings {
    /// No skill but those that somebody uploads.
    pub fn off() -> Self {
        Self { disabled: Disabled::All, dir: None }
    }
}

/// Registers everything. What is broken is logged and left out; the rest is there all the same.
///
/// # Errors
///
/// `unavailable` if the operator's directory cannot be listed; and as the store gives them.
pub(crate) async fn load(
    registry: &Arc<Registry>,
    settings: &CatalogueSettings,
    temporary: &Path,
) -> Result<(), Error> {
    let folders = folders(settings)?;
    let deleted = registry.deleted_globals().await?;
    let mut supplied = Vec::new();
    let mut kept = BTreeMap::new();
    for (name, folder) in folders {
        match register(registry, (&name, folder), &deleted, temporary).await {
            Ok((version, new)) => {
                kept.insert(name, version);
                supplied.extend(new);
            }
            Err(error) => tracing::error!(
                catalogue.folder = %name, error.code = %error.code,
                "A skill of the catalogue is left out: {error}"
            ),
        }
    }
    registry.withdraw_all_but(&kept);
    if !supplied.is_empty() {
        tracing::info!(skills = supplied.len(), "Skills of the catalogue were registered and are being compiled");
    }
    registry.compile_supplied(supplied);
    Ok(())
}

/// The folders that count, by the names of their skills, in the order of the catalogue.
fn folders(settings: &CatalogueSettings) -> Result<Vec<(SkillName, Folder)>, Error> {
    let mut own = settings.dir.as_deref().map_or(Ok(Vec::new()), folder::list)?;
    let mut all = Vec::new();
    if settings.disabled != Disabled::All {
        for (name, skill_md, component) in builtin::SKILLS {
            let name: SkillName = name.parse()?;
            // Also one that turns out to be broken: whoever replaces a skill does not want it back.
            if !own.iter().any(|(other, _)| *other == name) {
                all.push((name, Folder::Builtin { skill_md, component }));
            }
        }
    }
    all.append(&mut own);
    all.retain(|(name, _)| !settings.disabled.names(name));
    Ok(all)
}

/// Registers one, unless that was done before.
async fn register(
    registry: &Arc<Registry>,
    (name, folder): (&SkillName, Folder),
    deleted: &[(String, String)],
    temporary: &Path,
) -> Result<(semver::Version, Option<Supplied>), Error> {
    let (skill_md, component) = read(folder).await?;
    let manifest = Manifest::of_skill_md(skill_md)?;
    let version = manifest.of_catalogue(name)?;
    let is_deleted = |(gone, at): &(String, String)| gone == name.as_str() && *at == version.to_string();
    if registry.has_supplied(&manifest, Digest::of(&component))? {
        return Ok((version, None));
    }
    if deleted.iter().any(is_deleted) {
        tracing::info!(catalogue.folder = %name, "{name}@{version} stays away: an administrator deleted it");
        return Ok((version, None));
    }
    let looked = component.clone();
    let look = move || look_into(&looked);
    let inspection = tokio::task::spawn_blocking(look).await.map_err(Error::internal)??;
    let body = stream::iter([Ok::<_, Error>(component)]);
    let staged = StagedComponent::receive(temporary, u64::MAX, body).await?;
    let supplied = registry.supply(manifest, staged, inspection).await?;
    Ok((version, Some(supplied)))
}

/// The texts and bytes of a folder.
async fn read(folder: Folder) -> Result<(String, Bytes), Error> {
    tokio::task::spawn_blocking(move || folder.read()).await.map_err(Error::internal)?
}

#[cfg(test)]
mod tests;
