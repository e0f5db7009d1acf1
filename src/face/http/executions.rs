//! `/api/skills/executions`: running skills, and what became of the runs.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::{
    Caller, Code, Digest, Error, ExecutionId, ExecutionRequest, FieldError, LimitsPatch, OwnerId, SandboxFields, Scope,
    SkillRef, StrictJson,
};
use crate::registry::Retry;
use crate::store::ExecutionFilter;

use super::App;
use super::auth::Authed;
use super::problem::Problem;
use super::wire;

/// Executions on one page when nothing is said, and at most.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 500;

/// The request, in our names and in those of OmniRoute.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RunBody {
    #[serde(alias = "skillName", alias = "skill")]
    skill_id: String,
    #[serde(alias = "input")]
    args: Option<Box<RawValue>>,
    session_id: Option<String>,
    mode: Option<String>,
    #[serde(default)]
    limits: LimitsPatch,
    timeout: Option<u64>,
    max_retries: Option<u32>,
    retry: Option<Retry>,
    digest: Option<Digest>,
    api_key_id: Option<OwnerId>,
    cpu_limit: Option<u64>,
    memory_limit: Option<u64>,
    network_enabled: Option<bool>,
    read_only: Option<bool>,
}

impl RunBody {
    fn into_request(self, caller: &Caller) -> Result<ExecutionRequest, Error> {
        self.refuse_what_has_no_effect()?;
        let limits = self.sandbox().limits(self.limits, Code::Malformed)?;
        if self.api_key_id.is_some_and(|owner| owner != *caller.owner()) {
            return Err(Error::at(Code::Forbidden, "/apiKeyId", "a key runs skills for its own owner only"));
        }
        Ok(ExecutionRequest {
            skill: self.skill_id.parse::<SkillRef>()?,
            args: self
                .args
                .map(StrictJson::from_raw)
                .transpose()
                .map_err(|error| error.below("/args"))?
                .unwrap_or_default(),
            session_id: self.session_id,
            limits,
            digest: self.digest,
        })
    }

    /// OmniRoute's names for limits and grants.
    fn sandbox(&self) -> SandboxFields {
        SandboxFields {
            cpu_limit: self.cpu_limit,
            memory_limit: self.memory_limit,
            timeout: self.timeout,
            network_enabled: self.network_enabled,
            read_only: self.read_only,
        }
    }

    /// Refuses each field whose effect this version has not: better than to ignore it.
    fn refuse_what_has_no_effect(&self) -> Result<(), Error> {
        if self.max_retries.is_some() && self.retry.is_some() {
            return Err(Error::at(Code::Malformed, "/retry", "`retry` and `maxRetries` are the same; send one"));
        }
        let throttled = self.limits.cpu_percent.is_some_and(|percent| percent < 100);
        let asked = [
            ("/mode", self.mode.as_ref().is_some_and(|mode| mode != "sync")),
            ("/maxRetries", self.max_retries.is_some_and(|retries| retries > 0)),
            ("/retry/maxRetries", self.retry.as_ref().is_some_and(Retry::is_wanted)),
            ("/limits/cpuPercent", throttled),
        ];
        let asked = asked.into_iter().filter_map(|(place, asked)| asked.then_some(place));
        let detail = "this version does not have the effect of this yet; leave it out";
        let fields: Vec<_> =
            asked.chain(self.sandbox().without_effect()).map(|place| FieldError::new(place, detail)).collect();
        if fields.is_empty() { Ok(()) } else { Err(Error::fields(Code::NotSupported, detail, fields)) }
    }
}

/// Runs a skill and waits for its end: `POST /api/skills/executions`.
pub(crate) async fn create(
    State(app): State<App>,
    Authed(caller): Authed,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let bytes = bytes?;
    let body: RunBody = serde_json::from_slice(&bytes)
        .map_err(|error| Error::new(Code::Malformed, format!("the body cannot be read: {error}")))?;
    let request = body.into_request(&caller)?;
    let execution = Arc::clone(&app.host.executor).execute(caller, request).await?;
    Ok(json(wire::execution(&execution)))
}

/// Shows one execution with its result: `GET /api/skills/executions/{id}`.
pub(crate) async fn show(
    State(app): State<App>,
    Authed(caller): Authed,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let absent = || Error::not_found("execution");
    let id: ExecutionId = id.parse().map_err(|_| absent())?;
    let owner = (!caller.key.is_admin()).then(|| caller.owner().clone());
    let found = app.host.store.execution(id, owner).await?;
    let sees_all = caller.key.has(Scope::ExecutionsRead);
    let found = found.filter(|execution| sees_all || execution.key_id == caller.key.id);
    Ok(json(wire::execution(&found.ok_or_else(absent)?)))
}

/// What to list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    skill: Option<String>,
    status: Option<String>,
    owner: Option<OwnerId>,
    #[serde(alias = "sessionId")]
    session: Option<String>,
    since: Option<jiff::Timestamp>,
    cursor: Option<String>,
    limit: Option<u32>,
}

/// Lists executions, newest first: `GET /api/skills/executions`.
pub(crate) async fn list(
    State(app): State<App>,
    Authed(caller): Authed,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query?;
    let key = &caller.key;
    let owner = match query.owner {
        owner if key.is_admin() => owner,
        Some(owner) if owner != key.owner => {
            return Err(Error::new(Code::Forbidden, "only an admin key may list another owner's executions").into());
        }
        _ => Some(key.owner.clone()),
    };
    let filter = ExecutionFilter {
        owner,
        key: (!key.has(Scope::ExecutionsRead)).then(|| key.id.clone()),
        skill: query.skill,
        status: query.status.map(|status| status.parse()).transpose()?,
        session: query.session,
        since: query.since.map(jiff::Timestamp::as_millisecond),
        before: query.cursor.map(|cursor| cursor.parse()).transpose()?,
        limit: query.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE),
    };
    let page = app.host.store.executions(filter).await?;
    let next = page.executions.last().filter(|_| page.more).map(|last| last.id.to_string());
    let rows: Vec<_> = page.executions.iter().map(wire::execution).collect();
    let next = serde_json::to_string(&next).unwrap_or_default();
    Ok(json(format!("{{\"executions\":[{}],\"nextCursor\":{next},\"total\":{}}}", rows.join(","), page.total)))
}

fn json(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}
