//! `/api/skills/executions`: running skills, and what became of the runs.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::executor::ExecutionFilter;
use crate::model::{
    Caller, Code, Digest, Error, ExecutionId, ExecutionRequest, LimitsPatch, OwnerId, SkillRef, StrictJson,
};

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
    #[serde(default)]
    max_retries: u32,
    digest: Option<Digest>,
    api_key_id: Option<OwnerId>,
}

impl RunBody {
    fn into_request(self, caller: &Caller) -> Result<ExecutionRequest, Error> {
        let unsupported = |pointer, detail| Err(Error::at(Code::NotSupported, pointer, detail));
        if self.mode.is_some_and(|mode| mode != "sync") {
            return unsupported("/mode", "this version runs `sync` only");
        }
        if self.max_retries > 0 {
            return unsupported("/maxRetries", "this version does not retry");
        }
        if self.api_key_id.is_some_and(|owner| owner != *caller.owner()) {
            return Err(Error::at(Code::Forbidden, "/apiKeyId", "a key runs skills for its own owner only"));
        }
        let mut limits = self.limits;
        limits.timeout_ms = limits.timeout_ms.or(self.timeout);
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
    let id: ExecutionId = id.parse().map_err(|_| Error::not_found("execution"))?;
    Ok(json(wire::execution(&app.host.get_execution(&caller, id).await?)))
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
    let filter = ExecutionFilter {
        owner: query.owner,
        key: None,
        skill: query.skill,
        status: query.status.map(|status| status.parse()).transpose()?,
        session: query.session,
        since: query.since.map(jiff::Timestamp::as_millisecond),
        before: query.cursor.map(|cursor| cursor.parse()).transpose()?,
        limit: query.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE),
    };
    let page = app.host.list_executions(&caller, filter).await?;
    let next = page.executions.last().filter(|_| page.more).map(|last| last.id.to_string());
    let rows: Vec<_> = page.executions.iter().map(wire::execution).collect();
    let next = serde_json::to_string(&next).unwrap_or_default();
    Ok(json(format!("{{\"executions\":[{}],\"nextCursor\":{next},\"total\":{}}}", rows.join(","), page.total)))
}

fn json(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}
