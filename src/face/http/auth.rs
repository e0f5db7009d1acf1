//! Who asks: identity comes from the bearer key alone.

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

use crate::model::{Caller, Code, Door, Error};

use super::App;
use super::problem::Problem;

/// A caller whose key was checked. Handlers that take one cannot be reached without.
pub(crate) struct Authed(pub(crate) Caller);

impl FromRequestParts<App> for Authed {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        caller(parts, app, Door::Http).map(Self)
    }
}

/// The secret that was sent.
pub(super) fn secret(parts: &Parts) -> Option<&str> {
    let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    header.and_then(|value| {
        let (scheme, secret) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
    })
}

/// The caller behind a request that came through this door.
///
/// # Errors
///
/// `unauthenticated`; `malformed` for a query where there is none.
pub(super) fn caller(parts: &Parts, app: &App, door: Door) -> Result<Caller, Problem> {
    let secret = secret(parts);
    let found = match secret {
        Some(secret) => app.host.access.authenticate(secret, door),
        None => Err(Error::new(Code::Unauthenticated, "the key is missing, unknown or no longer valid")),
    };
    let why = if secret.is_some() { "the key is unknown or no longer valid" } else { "no bearer key was sent" };
    let caller = found.inspect_err(|_| {
        app.host.telemetry.http.unauthenticated(door.as_str());
        app.refusals.note(parts, why);
    })?;
    // Here, because every route with a key comes by, and only who has one is told what is wrong.
    app.queries.require_none(parts)?;
    Ok(caller)
}
