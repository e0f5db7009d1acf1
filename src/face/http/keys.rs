//! `/api/keys`: administration of keys.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::access::NewKey;
use crate::model::{Ceilings, Error, KeyId, OwnerId, Scope, SkillName};

use super::App;
use super::auth::Authed;
use super::problem::Problem;
use super::read::{self, Segment};
use super::{bodies, shapes, wire};

/// What a new key is to be.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = KeyRequest)]
pub(super) struct CreateBody {
    /// What people call it; 1 to 100 characters.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// The namespace it acts in; its own id if none is given.
    #[schema(value_type = Option<String>)]
    owner: Option<OwnerId>,
    /// What it may be used for; to upload, run and look if nothing is said.
    #[serde(default)]
    #[schema(schema_with = shapes::scopes, required = false)]
    scopes: Vec<Scope>,
    /// When it ends.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// The only skills it may see and run; all if none are given.
    #[schema(value_type = Option<Vec<String>>)]
    skills: Option<Vec<SkillName>>,
    /// The most it may grant and use; an admin key has no ceilings.
    #[serde(default, deserialize_with = "crate::model::object")]
    #[schema(value_type = shapes::Ceilings)]
    ceilings: Ceilings,
}

/// How a key gets a new secret.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schema(as = RotateRequest)]
pub(super) struct RotateBody {
    /// How long the old secret still works.
    grace_seconds: u32,
}

/// Makes a key
///
/// The secret is in the answer, and nowhere else. Needs the scope `admin`.
#[utoipa::path(
    post, path = "/api/keys", tag = "keys", request_body = CreateBody,
    responses((status = 201, description = "The key, with its secret", body = wire::KeyBody)),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Authed(caller): Authed,
    content: Body,
) -> Result<(StatusCode, Json<Value>), Problem> {
    // Before anything of the body is read.
    caller.key.require(Scope::Admin)?;
    let new: CreateBody = read::json(content).await?;
    let new = NewKey {
        name: new.name,
        owner: new.owner,
        scopes: new.scopes,
        expires_at: new.expires_at.map(Timestamp::as_millisecond),
        skills: new.skills,
        ceilings: new.ceilings,
    };
    let (key, secret) = app.host.access.create(&caller, new).await?;
    Ok((StatusCode::CREATED, Json(wire::key(&key, Some(&secret)))))
}

/// Lists keys
///
/// Needs the scope `admin`.
#[utoipa::path(
    get, path = "/api/keys", tag = "keys",
    responses((status = 200, description = "All keys, oldest first", body = bodies::KeyPage)),
)]
pub(crate) async fn list(State(app): State<App>, Authed(caller): Authed) -> Result<Json<Value>, Problem> {
    let keys: Vec<_> = app.host.access.list(&caller)?.iter().map(|key| wire::key(key, None)).collect();
    Ok(Json(json!({ "total": keys.len(), "keys": keys, "nextCursor": null })))
}

/// Shows a key
///
/// Needs the scope `admin`.
#[utoipa::path(
    get, path = "/api/keys/{id}", tag = "keys", params(("id" = String, Path, description = "Id of a key")),
    responses((status = 200, description = "The key", body = wire::KeyBody)),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(id): Segment,
) -> Result<Json<Value>, Problem> {
    let key = app.host.access.get(&caller, &key_id(&id)?)?;
    Ok(Json(wire::key(&key, None)))
}

/// How to end a key.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RevokeQuery {
    /// Whether to disable every skill that it registered, too, and to cancel its runs and theirs.
    quarantine: Option<bool>,
}

/// Ends a key
///
/// From the next request on. Needs the scope `admin`.
#[utoipa::path(
    delete, path = "/api/keys/{id}", tag = "keys",
    params(("id" = String, Path, description = "Id of a key"), RevokeQuery),
    responses((status = 204, description = "It is revoked")),
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(id): Segment,
    query: Result<Query<RevokeQuery>, QueryRejection>,
) -> Result<StatusCode, Problem> {
    caller.key.require(Scope::Admin)?;
    let Query(query) = query?;
    if query.quarantine == Some(true) {
        app.host.quarantine(&caller, &key_id(&id)?).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    app.host.access.revoke(&caller, &key_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives a key a new secret
///
/// The old one works for `graceSeconds` more. Needs the scope `admin`.
#[utoipa::path(
    post, path = "/api/keys/{id}/rotate", tag = "keys",
    params(("id" = String, Path, description = "Id of a key")), request_body = Option<RotateBody>,
    responses((status = 200, description = "The key, with its new secret", body = wire::KeyBody)),
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(id): Segment,
    content: Body,
) -> Result<Json<Value>, Problem> {
    caller.key.require(Scope::Admin)?;
    let bytes = read::bytes(content, read::SMALL_BODY).await?;
    let asked: RotateBody = if bytes.is_empty() { RotateBody::default() } else { read::parse(&bytes)? };
    let (key, secret) = app.host.access.rotate(&caller, &key_id(&id)?, asked.grace_seconds).await?;
    Ok(Json(wire::key(&key, Some(&secret))))
}

fn key_id(text: &str) -> Result<KeyId, Error> {
    text.parse().map_err(|_| Error::not_found("key"))
}
