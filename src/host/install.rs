//! Installing: a component that comes from elsewhere and not from who registers it.

use bytes::Bytes;
use futures_util::StreamExt;

use crate::model::{Caller, Code, Digest, Error, SkillSource, Source};
use crate::registry::{Manifest, Origin, Registered, StagedComponent};
use crate::sources::{Login, Opened, Order};

use super::Host;

/// What to install.
#[derive(Debug)]
pub struct Install {
    /// From where.
    pub source: Source,
    /// Who the source is told that we are. It is used for this once, and kept nowhere.
    pub login: Option<Login>,
    /// The digest that the component must have.
    pub digest: Option<Digest>,
    /// What is said about the skill. What it leaves open is taken from the component, else from
    /// the source.
    pub manifest: Manifest,
}

impl Install {
    /// Whatever `source` has, as it is.
    pub fn new(source: Source) -> Self {
        Self { source, login: None, digest: None, manifest: Manifest::default() }
    }
}

impl Host {
    /// Fetches a component and registers it as [`Host::register`] does. The network ceiling of the
    /// caller's key must allow what is fetched, or the operator names the source
    /// ([`SourceSettings::allowed`](crate::sources::SourceSettings)). Who gives up waiting before
    /// the component is there leaves nothing behind.
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
        let Install { source, login, digest, mut manifest } = install;
        self.registry.foresee(caller, &manifest)?;
        let order = Order { source: &source, login, owner: caller.owner().clone(), ceiling: caller.key.max_network() };
        let Opened { manifest_digest, digest: told, suggested, body } = self.sources.open(order).await?;
        let body = body.map(|chunk: Result<Bytes, Error>| {
            let chunk = chunk?;
            count(chunk.len())?;
            Ok(chunk)
        });
        let staged = StagedComponent::receive(&self.temporary, self.sources.max_bytes(), body).await?;
        require(told, staged.digest, "/source")?;
        require(digest, staged.digest, "/digest")?;
        let source = SkillSource {
            kind: source.kind().to_owned(),
            from: source.to_string(),
            manifest_digest,
            digest: staged.digest,
        };
        manifest.origin = Some(Origin { source, suggested });
        self.registry.register(caller, manifest, staged, respond_async).await
    }
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
