//! Putting a component into a registry.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::egress::{Fetcher, Target};
use crate::model::{Digest, Error, OciReference};
use crate::sources::Login;
use crate::sources::refused::unavailable;

use super::artefact::{Artefact, MANIFEST};
use super::registry::{Call, Registry, typed};

/// Most bytes of an answer of which only the head counts.
const MAX_ANSWER: u64 = 1 << 20;

/// Puts `component`, made at `created` (RFC 3339), where `reference` says, and gives the digest of
/// its manifest. What is there already is not sent again.
///
/// # Errors
///
/// `invalid_component` if it is none; `denied`, `not_found`, `unavailable` as the registry answers.
pub async fn push(
    fetcher: Fetcher,
    reference: &OciReference,
    login: Option<Login>,
    (component, created): (Bytes, &str),
) -> Result<Digest, Error> {
    let Artefact { config, manifest } = Artefact::of(&component, created)?;
    let mut registry = Registry::new(fetcher, reference, login, "pull,push")?;
    put_blob(&mut registry, component).await?;
    put_blob(&mut registry, config.into()).await?;
    let (digest, body) = (Digest::of(&manifest), Bytes::from(manifest));
    let target = registry.at(&format!("manifests/{}", reference.tag))?;
    let call = Call { method: Method::PUT, target, headers: typed(MANIFEST), body, most: MAX_ANSWER };
    let answer = registry.ask(&call).await?;
    registry.expect(answer, &format!("a place for {}:{}", reference.repository, reference.tag))?;
    Ok(digest)
}

async fn put_blob(registry: &mut Registry, bytes: Bytes) -> Result<(), Error> {
    let digest = Digest::of(&bytes);
    let empty =
        |method, target| Call { method, target, headers: HeaderMap::new(), body: Bytes::new(), most: MAX_ANSWER };
    let there = registry.at(&format!("blobs/{digest}"))?;
    if registry.ask(&empty(Method::HEAD, there)).await?.status() == StatusCode::OK {
        return Ok(());
    }
    let begin = registry.at("blobs/uploads/")?;
    let begun = registry.ask(&empty(Method::POST, begin)).await?;
    let begun = registry.expect(begun, "a place for a new artefact")?;
    let location = begun.header(LOCATION).ok_or_else(|| unavailable("the registry gives no place for it".into()))?;
    let mut url = registry.given(location)?;
    url.query_pairs_mut().append_pair("digest", &digest.to_string());
    let target = Target::parse(url.as_str()).map_err(|why| unavailable(format!("a request of the upload {why}")))?;
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))]);
    let call = Call { method: Method::PUT, target, headers, body: bytes, most: MAX_ANSWER };
    let put = registry.ask(&call).await?;
    registry.expect(put, "a place for the bytes").map(drop)
}
