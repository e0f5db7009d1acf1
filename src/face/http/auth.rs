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
fn secret(parts: &Parts) -> Option<&str> {
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
    known(parts, app, door).map(|(caller, _)| caller)
}

/// The same with the secret that says so.
///
/// # Errors
///
/// As [`caller`].
pub(super) fn known<'p>(parts: &'p Parts, app: &App, door: Door) -> Result<(Caller, &'p str), Problem> {
    let secret = secret(parts);
    let why = if secret.is_some() { "the key is unknown or no longer valid" } else { "no bearer key was sent" };
    let found = match secret {
        Some(secret) => app.host.access.authenticate(secret, door).map(|caller| (caller, secret)),
        None => {
            app.host.access.failed(door);
            Err(without_scheme(parts))
        }
    };
    let known = found.inspect_err(|_| {
        app.host.telemetry.http.unauthenticated(door.as_str());
        app.refusals.note(parts, why);
    })?;
    // Here, because every route with a key comes by, and only who has one is told what is wrong.
    app.queries.require_none(parts)?;
    Ok(known)
}

/// What to say where no bearer key came.
fn without_scheme(parts: &Parts) -> Error {
    let detail = if parts.headers.contains_key(AUTHORIZATION) {
        "the Authorization header has no bearer key; send `Authorization: Bearer KEY`"
    } else {
        "the key is missing, unknown or no longer valid"
    };
    Error::new(Code::Unauthenticated, detail)
}
