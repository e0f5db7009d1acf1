//! Reading bodies and paths: bounded, and with a problem for everything that goes wrong.

use std::error::Error as StdError;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use bytes::BytesMut;
use http_body_util::{BodyExt, Collected, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::model::{Code, Error, StrictJson};

use super::held::Room;
use super::pace::TooSlow;
use super::problem::Problem;

/// Largest manifest and largest body about a key, in bytes.
pub(super) const SMALL_BODY: usize = 512 << 10;

/// Reads a whole body of at most `limit` bytes.
///
/// # Errors
///
/// `too_large`, before anything is read where the length was announced; `request_timeout`;
/// `malformed` if the body breaks off.
pub(super) async fn bytes(body: Body, limit: usize) -> Result<Bytes, Error> {
    let too_large = || Error::new(Code::TooLarge, format!("the body has more than {limit} bytes"));
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let whole = Limited::new(body, limit).collect().await;
    whole
        .map(Collected::to_bytes)
        .map_err(|error| if is_behind::<LengthLimitError>(&*error) { too_large() } else { broken_off(&*error) })
}

/// Reads a whole body as [`bytes()`] does, and takes room for it as it comes.
///
/// # Errors
///
/// Those, and `overloaded` or `queue_full` if there is no room.
pub(super) async fn held(body: Body, limit: usize, room: &mut Room) -> Result<Bytes, Error> {
    let too_large = || Error::new(Code::TooLarge, format!("the body has more than {limit} bytes"));
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let (mut body, mut whole) = (body, Bytes::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| broken_off(&error))?.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(too_large());
        }
        room.grow(data.len())?;
        // Most bodies come in one piece, which is not copied.
        whole = if whole.is_empty() { data } else { joined(whole, &data) };
    }
    Ok(whole)
}

/// Both, one after the other, where possible without moving the first.
fn joined(first: Bytes, second: &[u8]) -> Bytes {
    let mut both = BytesMut::from(first);
    both.extend_from_slice(second);
    both.freeze()
}

/// Reads a small body as strict JSON into a type.
///
/// # Errors
///
/// As [`bytes()`]; `malformed` if it is not that.
pub(super) async fn json<T: DeserializeOwned>(body: Body) -> Result<T, Error> {
    parse(&bytes(body, SMALL_BODY).await?)
}

/// Reads strict JSON into a type.
///
/// # Errors
///
/// `malformed`.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    require_object(bytes)?;
    let text = text(bytes)?;
    StrictJson::parse(text)?;
    serde_json::from_str(text).map_err(|error| Error::new(Code::Malformed, format!("cannot be read: {error}")))
}

/// Refuses what is not an object: serde would take an array for the fields in their order.
///
/// # Errors
///
/// `malformed`.
pub(super) fn require_object(bytes: &[u8]) -> Result<(), Error> {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => Ok(()),
        _ => Err(Error::new(Code::Malformed, "the body must be a JSON object")),
    }
}

/// A body as text.
///
/// # Errors
///
/// `malformed` if it is not UTF-8.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::new(Code::Malformed, "the body is not UTF-8"))
}

/// A body that did not come to its end, or not soon enough.
pub(super) fn broken_off(error: &(dyn StdError + 'static)) -> Error {
    if is_behind::<TooSlow>(error) {
        return Error::new(Code::RequestTimeout, TooSlow::DETAIL);
    }
    if is_behind::<LengthLimitError>(error) {
        return Error::new(Code::TooLarge, "the body is larger than an upload may be (setting upload.max_bytes)");
    }
    let why = crate::model::plain(&error.to_string(), 200);
    Error::new(Code::Malformed, format!("the body broke off: {why}"))
}

/// Whether an `E` is the reason for `error`, at whatever depth.
pub(super) fn is_behind<E: StdError + 'static>(error: &(dyn StdError + 'static)) -> bool {
    let mut reason = Some(error);
    while let Some(error) = reason {
        if error.is::<E>() {
            return true;
        }
        reason = error.source();
    }
    false
}

/// The one segment of a path that a route leaves open, decoded.
pub(super) struct Segment(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Ok(Self(Path::<String>::from_request_parts(parts, state).await?.0))
    }
}

/// The two segments of a path that a route leaves open, decoded.
pub(super) struct TwoSegments(pub(super) String, pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for TwoSegments {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path((first, second)) = Path::<(String, String)>::from_request_parts(parts, state).await?;
        Ok(Self(first, second))
    }
}
