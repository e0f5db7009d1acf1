//! `/api/keys`: administration of keys.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::NewKey;
use crate::model::{Ceilings, Code, Error, KeyId, OwnerId, Scope, SkillName, StrictJson};

use super::App;
use super::auth::Authed;
use super::problem::Problem;
use super::wire;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreateBody {
    name: String,
    owner: Option<OwnerId>,
    #[serde(default)]
    scopes: Vec<Scope>,
    expires_at: Option<Timestamp>,
    skills: Option<Vec<SkillName>>,
    #[serde(default)]
    ceilings: Ceilings,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct RotateBody {
    grace_seconds: u32,
}

/// Reads a strict JSON body into a type.
pub(super) fn body<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::new(Code::Malformed, "the body is not UTF-8"))?;
    let strict = StrictJson::parse(text)?;
    serde_json::from_str(strict.text()).map_err(|error| Error::new(Code::Malformed, format!("cannot be read: {error}")))
}

/// Makes a key: `POST /api/keys`. The secret is in the answer, and nowhere else.
pub(crate) async fn create(
    State(app): State<App>,
    Authed(caller): Authed,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    caller.key.require(Scope::Admin)?;
    let new: CreateBody = body(&bytes?)?;
    if new.name.is_empty() || new.name.chars().count() > 100 {
        return Err(Error::at(Code::Malformed, "/name", "must have 1 to 100 characters").into());
    }
    let new = NewKey {
        name: new.name,
        owner: new.owner,
        scopes: new.scopes,
        expires_at: new.expires_at.map(Timestamp::as_millisecond),
        skills: new.skills,
        ceilings: new.ceilings,
    };
    let (key, secret) = app.host.access.create(new).await?;
    let mut answer = wire::key(&key);
    answer["secret"] = Value::from(secret);
    Ok((StatusCode::CREATED, Json(answer)))
}

/// Lists keys: `GET /api/keys`.
pub(crate) async fn list(State(app): State<App>, Authed(caller): Authed) -> Result<Json<Value>, Problem> {
    caller.key.require(Scope::Admin)?;
    let keys: Vec<_> = app.host.access.list().iter().map(|key| wire::key(key)).collect();
    Ok(Json(json!({ "total": keys.len(), "keys": keys, "nextCursor": null })))
}

/// Shows a key: `GET /api/keys/{id}`.
pub(crate) async fn show(
    State(app): State<App>,
    Authed(caller): Authed,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    caller.key.require(Scope::Admin)?;
    let key = app.host.access.get(&key_id(&id)?)?;
    Ok(Json(wire::key(&key)))
}

/// Ends a key: `DELETE /api/keys/{id}`.
pub(crate) async fn revoke(
    State(app): State<App>,
    Authed(caller): Authed,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.key.require(Scope::Admin)?;
    app.host.access.revoke(&key_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives a key a new secret: `POST /api/keys/{id}/rotate`.
pub(crate) async fn rotate(
    State(app): State<App>,
    Authed(caller): Authed,
    Path(id): Path<String>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    caller.key.require(Scope::Admin)?;
    let bytes = bytes?;
    let asked: RotateBody = if bytes.is_empty() { RotateBody::default() } else { body(&bytes)? };
    let (key, secret) = app.host.access.rotate(&key_id(&id)?, asked.grace_seconds).await?;
    let mut answer = wire::key(&key);
    answer["secret"] = Value::from(secret);
    Ok(Json(answer))
}

fn key_id(text: &str) -> Result<KeyId, Error> {
    text.parse().map_err(|_| Error::not_found("key"))
}
