//! Artefacts in registries (OCI distribution specification 1.1): those of `wkg`, of `oras`, and
//! images with the media types of Docker.

mod artefact;
mod challenge;
mod manifest;
mod push;
mod registry;

use futures_util::StreamExt;

use crate::egress::{Fetched, Fetcher};
use crate::model::{Code, Digest, Error, OciReference, plain};

use self::manifest::{Layer, Manifest};
use super::refused::{at, too_large};
use super::{Login, Opened, Suggested, component};

pub use self::push::push;
pub use self::registry::{Registry, host};

/// Largest manifest, in bytes. It is in memory; one that leads to a component is far from it.
const MAX_MANIFEST: u64 = 256 << 10;
/// Longest description that is taken over, in bytes.
const MAX_DESCRIPTION: usize = 1024;

/// Begins to fetch the component that a reference stands for.
///
/// # Errors
///
/// As [`super::Sources::open`] gives them.
pub async fn open(
    fetcher: Fetcher,
    reference: &OciReference,
    login: Option<Login>,
    most: u64,
) -> Result<Opened, Error> {
    let mut registry = Registry::new(fetcher, reference, login, "pull")?;
    let wanted = reference.digest.map_or_else(|| reference.tag.clone(), |digest| digest.to_string());
    let (mut manifest, digest) = manifest(&mut registry, &wanted, reference.digest).await?;
    if let Some(inner) = manifest.platform()? {
        (manifest, _) = self::manifest(&mut registry, &inner.to_string(), Some(inner)).await?;
        if manifest.is_index() {
            return Err(at(Code::InvalidComponent, "the index leads to another index"));
        }
    }
    let Layer { digest: content, size } = manifest.component()?;
    if size > most {
        return Err(too_large(most));
    }
    let body = component(registry.blob(content, size).await?).await?.map(|chunk| chunk.map_err(too_long));
    Ok(Opened {
        manifest_digest: Some(digest),
        digest: Some(content),
        suggested: suggested(reference, &manifest),
        is_archive: false,
        body: body.boxed(),
    })
}

/// More than the manifest says has another digest, whatever is still to come.
fn too_long(error: Error) -> Error {
    match error.code {
        Code::TooLarge => at(Code::DigestMismatch, "the registry sends more bytes than the manifest says"),
        _ => error,
    }
}

/// A manifest and its digest, which must be `pinned` where that is said.
async fn manifest(registry: &mut Registry, wanted: &str, pinned: Option<Digest>) -> Result<(Manifest, Digest), Error> {
    let fetched: Fetched = registry.manifest(wanted).await?;
    let told = fetched.header("docker-content-digest").and_then(|digest| digest.parse::<Digest>().ok());
    let bytes = fetched.bytes().await.map_err(|error| super::refused::refused(&error))?;
    let digest = Digest::of(&bytes);
    if let Some(expected) = pinned.or(told).filter(|expected| *expected != digest) {
        let detail = format!("the manifest should have the digest {expected}, and has {digest}");
        return Err(at(Code::DigestMismatch, detail));
    }
    Ok((Manifest::parse(&bytes)?, digest))
}

/// What name, tag and annotations say.
fn suggested(reference: &OciReference, manifest: &Manifest) -> Suggested {
    let annotation = |name: &str| manifest.annotation(&format!("org.opencontainers.image.{name}"));
    let is_version = |text: &&str| semver::Version::parse(text).is_ok();
    let tag = reference.tag.strip_prefix('v').unwrap_or(&reference.tag);
    let version = annotation("version").filter(is_version).or(Some(tag).filter(is_version));
    Suggested {
        name: reference.repository.rsplit('/').next().map(|name| name.replace(['_', '.'], "-")),
        version: version.map(str::to_owned),
        description: annotation("description").map(|text| plain(text, MAX_DESCRIPTION)),
    }
}
