//! `/api/interceptors`: code around executions.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::executor::{InterceptorPatch, NewInterceptor};
use crate::model::{
    Clock, Code, Digest, Error, InterceptorId, InterceptorKind, InterceptorName, InterceptorRecord, Phase, Scope,
    SkillName,
};
use crate::secrets::SigningSecret;

use super::App;
use super::auth::Authed;
use super::owner::OwnerQuery;
use super::problem::Problem;
use super::read::{self, Segment};
use super::{bodies, shapes};

type Asked = Result<Query<OwnerQuery>, QueryRejection>;

/// How long the secret of a webhook before the newest signs too, if nothing is said, in seconds.
const GRACE_SECONDS: u32 = 24 * 60 * 60;

/// An interceptor that is to be set up.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = InterceptorRequest)]
pub(super) struct CreateBody {
    /// What people call it: 1 to 64 of a-z 0-9 -, unique with its owner.
    name: String,
    /// `wasm`, `webhook` or `builtin`.
    #[schema(schema_with = shapes::interceptor_kind)]
    kind: String,
    /// Where it stands; both if nothing is said. A webhook that is not blocking is told of ends, and has none to choose.
    #[schema(value_type = Option<Vec<bodies::Phase>>)]
    phases: Option<Vec<Phase>>,
    /// Whether runs wait for it; only a webhook can be without that. Default: true.
    blocking: Option<bool>,
    /// Its place among those of its owner: lower ones come first. Those for everybody come after the owner's own.
    #[serde(default)]
    order: i32,
    /// How long it may take for one answer, in milliseconds: 1 to 30,000.
    timeout_ms: Option<u64>,
    /// Whether a run goes on without it if it gives no answer that can be used.
    #[serde(default)]
    optional: bool,
    /// Whether it stands around the runs of every owner: only for admin keys.
    #[serde(default)]
    global: bool,
    /// Whether it is asked at all.
    enabled: Option<bool>,
    /// The only skills that it is asked about, by name.
    #[schema(value_type = Option<Vec<String>>)]
    skills: Option<Vec<SkillName>>,
    /// Where a webhook is.
    url: Option<String>,
    /// SHA-256 of a component that its owner has uploaded.
    #[schema(required = false, schema_with = shapes::digest)]
    component: Option<Digest>,
    /// Which builtin: `structured-log`, `argument-policy` or `redaction`.
    builtin: Option<String>,
    /// What a builtin is set to.
    #[schema(value_type = Option<Object>)]
    config: Option<Map<String, Value>>,
}

impl CreateBody {
    fn into_new(self) -> Result<NewInterceptor, Error> {
        let name: Result<InterceptorName, Error> = self.name.parse();
        Ok(NewInterceptor {
            name: name.map_err(|error| Error::at(Code::InvalidArgs, "/name", error.detail))?,
            kind: self.kind,
            phases: self.phases,
            blocking: self.blocking,
            order: self.order,
            timeout_ms: self.timeout_ms,
            optional: self.optional,
            global: self.global,
            enabled: self.enabled.unwrap_or(true),
            skills: self.skills,
            url: self.url,
            component: self.component,
            builtin: self.builtin,
            config: self.config,
        })
    }
}

/// A change of an interceptor. What is not said stays.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = InterceptorChange)]
pub(super) struct ChangeBody {
    /// Where it stands.
    #[schema(value_type = Option<Vec<bodies::Phase>>)]
    phases: Option<Vec<Phase>>,
    /// Its place.
    order: Option<i32>,
    /// How long it may take, in milliseconds.
    timeout_ms: Option<u64>,
    /// Whether a run goes on without it.
    optional: Option<bool>,
    /// Whether it is asked at all.
    enabled: Option<bool>,
    /// The only skills that it is asked about; null for all.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    skills: Option<Option<Vec<SkillName>>>,
    /// Where a webhook is.
    url: Option<String>,
    /// The digest of a component.
    #[schema(required = false, schema_with = shapes::digest)]
    component: Option<Digest>,
    /// What a builtin is set to.
    #[schema(value_type = Option<Object>)]
    config: Option<Map<String, Value>>,
}

/// A value, also where it is null.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl From<ChangeBody> for InterceptorPatch {
    fn from(body: ChangeBody) -> Self {
        let ChangeBody { phases, order, timeout_ms, optional, enabled, skills, url, component, config } = body;
        Self { phases, order, timeout_ms, optional, enabled, skills, url, component, config }
    }
}

/// How a webhook gets another secret.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schema(as = InterceptorRotation)]
pub(super) struct RotateBody {
    /// How long the one before signs too; a day if nothing is said.
    grace_seconds: Option<u32>,
}

/// An interceptor.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Interceptor)]
pub(super) struct InterceptorBody<'a> {
    /// Its id.
    #[schema(value_type = uuid::Uuid)]
    id: InterceptorId,
    /// Whose it is; the system's if it is for everybody.
    owner: &'a str,
    /// What people call it.
    name: &'a str,
    /// `wasm`, `webhook` or `builtin`.
    #[schema(schema_with = shapes::interceptor_kind)]
    kind: &'a str,
    /// Where it stands.
    #[schema(value_type = Vec<bodies::Phase>)]
    phases: &'a [Phase],
    /// Whether runs wait for it.
    blocking: bool,
    /// Its place.
    order: i32,
    /// How long it may take, in milliseconds.
    timeout_ms: u64,
    /// Whether a run goes on without it.
    optional: bool,
    /// Whether it is for every owner.
    global: bool,
    /// Whether it is asked at all.
    enabled: bool,
    /// The only skills that it is asked about; null for all.
    #[schema(required = true, value_type = Option<Vec<String>>)]
    skills: Option<&'a [SkillName]>,
    /// Where a webhook is.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    /// The digest of a component.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, schema_with = shapes::digest)]
    component: Option<Digest>,
    /// Which builtin.
    #[serde(skip_serializing_if = "Option::is_none")]
    builtin: Option<&'a str>,
    /// What a builtin is set to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    config: Option<&'a Map<String, Value>>,
    /// The key that set it up, under whose ceilings it works.
    registered_by: &'a str,
    /// When it was set up.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was last changed.
    #[schema(format = DateTime)]
    updated_at: String,
    /// What a webhook is signed with: in the answer to setting it up or giving it another, and nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    secret: Option<&'a str>,
}

fn shown(record: &InterceptorRecord, secret: Option<&SigningSecret>) -> Value {
    let secret = secret.map(SigningSecret::shown);
    let (mut url, mut component, mut builtin, mut config) = (None, None, None, None);
    match &record.what {
        InterceptorKind::Webhook { url: at } => url = Some(at.as_str()),
        InterceptorKind::Wasm { component: digest } => component = Some(*digest),
        InterceptorKind::Builtin { builtin: name, config: set } => (builtin, config) = (Some(name.as_str()), Some(set)),
    }
    let body = InterceptorBody {
        id: record.id,
        owner: record.owner.as_str(),
        name: record.name.as_str(),
        kind: record.what.as_str(),
        phases: &record.phases,
        blocking: record.blocking,
        order: record.order,
        timeout_ms: record.timeout_ms,
        optional: record.optional,
        global: record.global,
        enabled: record.enabled,
        skills: record.skills.as_deref(),
        url,
        component,
        builtin,
        config,
        registered_by: record.registered_by.as_str(),
        created_at: Clock::rfc3339(record.created_at),
        updated_at: Clock::rfc3339(record.updated_at),
        secret: secret.as_ref().map(|secret| secret.as_str()),
    };
    serde_json::to_value(body).unwrap_or_default()
}

/// All interceptors that a key may change.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "described, never built")]
pub(super) struct InterceptorPage<'a> {
    /// The interceptors, oldest first.
    interceptors: Vec<InterceptorBody<'a>>,
    /// Where the next page begins; null on the last.
    #[schema(required = true)]
    next_cursor: Option<String>,
    /// How many there are on all pages.
    total: u64,
}

/// Lists interceptors
///
/// Of the key's owner; for an admin key all, or those of one owner. Needs the scope `interceptors:write`.
#[utoipa::path(
    get, path = "/api/interceptors", tag = "interceptors", params(OwnerQuery),
    responses((status = 200, description = "The interceptors, oldest first", body = InterceptorPage)),
)]
pub(crate) async fn list(State(app): State<App>, Authed(caller): Authed, query: Asked) -> Result<Json<Value>, Problem> {
    caller.key.require(Scope::InterceptorsWrite)?;
    let records = app.host.interceptors.list(&caller, query?.0.owner.as_ref())?;
    let all: Vec<_> = records.iter().map(|record| shown(record, None)).collect();
    Ok(Json(json!({ "total": all.len(), "interceptors": all, "nextCursor": null })))
}

/// Sets an interceptor up
///
/// Around the runs of the key's owner; with an admin key of another owner, or with `global` of everybody. A webhook's
/// target is checked now and at each delivery, under the network ceiling of this key. What it is signed with is in
/// the answer, and nowhere else. Needs the scope `interceptors:write`.
#[utoipa::path(
    post, path = "/api/interceptors", tag = "interceptors", request_body = CreateBody, params(OwnerQuery),
    responses((status = 201, description = "The interceptor", body = InterceptorBody)),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Authed(caller): Authed,
    query: Asked,
    content: Body,
) -> Result<(StatusCode, Json<Value>), Problem> {
    // Before anything of the body is read.
    caller.key.require(Scope::InterceptorsWrite)?;
    let owner = query?.0.owner;
    let body: CreateBody = read::json(content).await?;
    let (record, secret) = app.host.interceptors.create(&caller, owner, body.into_new()?).await?;
    Ok((StatusCode::CREATED, Json(shown(&record, secret.as_ref()))))
}

/// Shows an interceptor
///
/// Needs the scope `interceptors:write`.
#[utoipa::path(
    get, path = "/api/interceptors/{id}", tag = "interceptors",
    params(("id" = String, Path, description = "Id of an interceptor")),
    responses((status = 200, description = "The interceptor", body = InterceptorBody)),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(id): Segment,
) -> Result<Json<Value>, Problem> {
    caller.key.require(Scope::InterceptorsWrite)?;
    Ok(Json(shown(&*app.host.interceptors.get(&caller, interceptor_id(&id)?)?, None)))
}

/// Changes an interceptor
///
/// Needs the scope `interceptors:write`.
#[utoipa::path(
    patch, path = "/api/interceptors/{id}", tag = "interceptors", request_body = ChangeBody,
    params(("id" = String, Path, description = "Id of an interceptor")),
    responses((status = 200, description = "The interceptor", body = InterceptorBody)),
)]
pub(crate) async fn change(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(id): Segment,
    content: Body,
) -> Result<Json<Value>, Problem> {
    caller.key.require(Scope::InterceptorsWrite)?;
    let body: ChangeBody = read::json(content).await?;
    let record = app.host.interceptors.change(&caller, interceptor_id(&id)?, body.into()).await?;
    Ok(Json(shown(&record, None)))
}

/// Removes an interceptor
///
/// With everything that a webhook was still to be told. Needs the scope `interceptors:write`.
#[utoipa::path(
    delete, path = "/api/interceptors/{id}", tag = "interceptors",
    params(("id" = String, Path, description = "Id of an interceptor")),
    responses((status = 204, description = "It is gone")),
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(id): Segment,
) -> Result<StatusCode, Problem> {
    caller.key.require(Scope::InterceptorsWrite)?;
    app.host.interceptors.remove(&caller, interceptor_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives a webhook another secret
///
/// Both sign for `graceSeconds`, so that who receives can change in between. Needs the scope `interceptors:write`.
#[utoipa::path(
    post, path = "/api/interceptors/{id}/rotate", tag = "interceptors", request_body = Option<RotateBody>,
    params(("id" = String, Path, description = "Id of a webhook")),
    responses((status = 200, description = "The webhook, with its new secret", body = InterceptorBody)),
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(id): Segment,
    content: Body,
) -> Result<Json<Value>, Problem> {
    caller.key.require(Scope::InterceptorsWrite)?;
    let bytes = read::bytes(content, read::SMALL_BODY).await?;
    let asked: RotateBody = if bytes.is_empty() { RotateBody::default() } else { read::parse(&bytes)? };
    let grace = asked.grace_seconds.unwrap_or(GRACE_SECONDS);
    let (record, secret) = app.host.interceptors.rotate(&caller, interceptor_id(&id)?, grace).await?;
    Ok(Json(shown(&record, Some(&secret))))
}

pub(super) fn interceptor_id(text: &str) -> Result<InterceptorId, Error> {
    text.parse().map_err(|_| Error::not_found("interceptor"))
}
