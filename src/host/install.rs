//! Installing: a skill that comes from elsewhere and not from who registers it.

use bytes::Bytes;
use futures_util::StreamExt;

use crate::model::{Caller, Code, Digest, Error, GitPart, OwnerId, SkillSource, Source};
use crate::registry::{Manifest, Origin, Registered, StagedComponent, unzip, unzip_part};
use crate::sources::{Login, Opened, Order};

use super::Host;

/// How many bytes deflate makes of one at most.
const DEFLATE: u64 = 1032;

/// What to install.
#[derive(Debug)]
pub struct Install {
    /// From where.
    pub source: Source,
    /// Which folder of a repository or of a zip.
    pub part: GitPart,
    /// Who the source is told that we are. It is used for this once, and kept nowhere.
    pub login: Option<Login>,
    /// The digest that the component must have.
    pub digest: Option<Digest>,
    /// The digest that the `SKILL.md` of a skill folder must have; a component alone has none.
    pub skill_md_digest: Option<Digest>,
    /// What is said about the skill. What it leaves open is taken from the component, else from
    /// the source. A skill folder has its own.
    pub manifest: Option<Manifest>,
    /// What goes before any manifest.
    pub named: Named,
}

/// What a skill is called by who installs it, whatever its manifest says.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// For whom it is registered; admin keys only.
    pub owner: Option<OwnerId>,
}

impl Named {
    fn over(self, mut manifest: Manifest) -> Manifest {
        manifest.name = self.name.or(manifest.name);
        manifest.version = self.version.or(manifest.version);
        manifest.description = self.description.or(manifest.description);
        manifest.owner = self.owner.or(manifest.owner);
        manifest
    }
}

impl Install {
    /// Whatever `source` has, as it is.
    pub fn new(source: Source) -> Self {
        let (part, named) = (GitPart::default(), Named::default());
        Self { source, part, login: None, digest: None, skill_md_digest: None, manifest: None, named }
    }
}

impl Host {
    /// Fetches a component or a skill folder and registers it as [`Host::register`] does. The
    /// network ceiling of the caller's key must allow what is fetched, or the operator names the
    /// source ([`SourceSettings::allowed`](crate::sources::SourceSettings)). Who gives up waiting
    /// before the component is there leaves nothing behind.
    ///
    /// # Errors
    ///
    /// As [`Host::register`]; `denied` if it may not be fetched; `not_found` if the source has no
    /// such thing; `digest_mismatch`, `too_large`; `unavailable` if the source does not answer.
    pub async fn install(&self, caller: &Caller, install: Install) -> Result<Registered, Error> {
        self.install_counted(caller, install, false, |_| Ok(())).await
    }

    /// The same; `count` is told of every chunk, and may refuse it.
    pub(crate) async fn install_counted(
        &self,
        caller: &Caller,
        install: Install,
        respond_async: bool,
        mut count: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<Registered, Error> {
        let Install { source, part, login, digest, skill_md_digest: wanted, manifest, named } = install;
        let has_manifest = manifest.is_some();
        let manifest = manifest.unwrap_or_default();
        self.registry.foresee(caller, &named.clone().over(manifest.clone()))?;
        let (owner, ceiling) = (caller.owner().clone(), caller.key.max_network());
        let order = Order { source: &source, part: &part, login, owner, ceiling };
        let Opened { manifest_digest, digest: told, suggested, is_archive, body } = self.sources.open(order).await?;
        let body = body.map(|chunk: Result<Bytes, Error>| {
            let chunk = chunk?;
            count(chunk.len())?;
            Ok(chunk)
        });
        let staged = StagedComponent::receive(&self.temporary, self.sources.max_bytes(), body).await?;
        let (manifest, staged) = match is_archive {
            false => (manifest, staged),
            true if has_manifest => {
                let detail = "a skill folder has its own manifest, in its SKILL.md; leave this one out";
                return Err(Error::at(Code::InvalidManifest, "/manifest", detail));
            }
            true => {
                let skill = (part.skill.clone(), matches!(source, Source::Git(_)));
                self.unpack(staged, skill, &mut count).await?
            }
        };
        require(told, staged.digest, "/source")?;
        require(digest, staged.digest, "/digest")?;
        let skill_md_digest = manifest.skill_md.as_ref().map(|text| Digest::of(text.as_bytes()));
        require_skill_md(wanted, skill_md_digest)?;
        let mut manifest = named.over(manifest);
        let (kind, from) = (source.kind().to_owned(), source.to_string());
        let GitPart { skill, reference } = part;
        let source =
            SkillSource { kind, from, manifest_digest, skill, reference, digest: staged.digest, skill_md_digest };
        manifest.origin = Some(Origin { source, suggested });
        self.registry.register(caller, manifest, staged, respond_async).await
    }

    /// Takes a skill folder out of its archive.
    async fn unpack(
        &self,
        archive: StagedComponent,
        (skill, is_repository): (Option<String>, bool),
        count: &mut impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<(Manifest, StagedComponent), Error> {
        let most = self.sources.max_bytes();
        // Small archives may be much work: what one may become counts.
        let becomes = archive.bytes.saturating_mul(DEFLATE).min(most.saturating_mul(2));
        count(usize::try_from(becomes).unwrap_or(usize::MAX))?;
        let _place = self.sources.expanding.acquire().await.map_err(Error::internal)?;
        let (manifest, component) = if is_repository || skill.is_some() {
            let (manifest, component) = unzip_part(archive.file.clone(), most, skill);
            (manifest, component.boxed())
        } else {
            let (manifest, component) = unzip(archive.file.clone(), most);
            (manifest, component.boxed())
        };
        let component = component.map(|chunk| chunk.map_err(Error::internal));
        let staged = StagedComponent::receive(&self.temporary, most, component).await;
        // What is wrong with the archive is also why its component ended.
        let manifest = manifest.await.map_err(Error::internal)??;
        if manifest.component()?.is_some() {
            let detail = "the component comes with the folder; leave the handler out, or make it `wasm`";
            return Err(Error::at(Code::InvalidManifest, "/handler", detail));
        }
        require_no_claim(&manifest)?;
        Ok((manifest, staged?))
    }
}

/// Refuses a folder that says whose it becomes or whom it is told to: it speaks with the key of who
/// installs it, maybe an administrator, who did not write it.
fn require_no_claim(manifest: &Manifest) -> Result<(), Error> {
    let claim = match manifest {
        Manifest { owner: Some(_), .. } => "/owner",
        Manifest { public: true, .. } => "/public",
        _ => return Ok(()),
    };
    let detail = "a skill folder that is installed does not say this; who installs it does";
    Err(Error::at(Code::InvalidManifest, claim, detail))
}

/// Refuses what has another digest than it should.
fn require(expected: Option<Digest>, digest: Digest, pointer: &str) -> Result<(), Error> {
    match expected.filter(|expected| *expected != digest) {
        None => Ok(()),
        Some(expected) => {
            let detail = format!("the component should have the digest {expected}, and what came has {digest}");
            Err(Error::at(Code::DigestMismatch, pointer, detail))
        }
    }
}

/// Refuses a folder with another `SKILL.md` than it should have, and a component without any.
fn require_skill_md(wanted: Option<Digest>, digest: Option<Digest>) -> Result<(), Error> {
    let Some(wanted) = wanted.filter(|wanted| Some(*wanted) != digest) else { return Ok(()) };
    let came = digest.map_or_else(|| "none came".to_owned(), |digest| format!("what came has {digest}"));
    let detail = format!("the SKILL.md should have the digest {wanted}, and {came}");
    Err(Error::at(Code::DigestMismatch, "/skillMdDigest", detail))
}
