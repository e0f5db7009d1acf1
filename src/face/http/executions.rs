//! `/api/skills/executions`: running skills, and what became of the runs.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::executor::{ExecutionFilter, Once, Streamed, apart};
use crate::model::{
    Caller, Code, Digest, Error, ExecutionId, ExecutionRequest, Idempotency, IdempotencyKey, KeyId, LimitsPatch,
    OwnerId, RetryPatch, SandboxFields, SkillRef, StrictJson, refuse_without_effect,
};

use super::App;
use super::auth::Authed;
use super::held::Room;
use super::problem::Problem;
use super::read::{self, Segment};
use super::{bodies, events, rate, shapes, wire};

/// Room for what stands around the arguments in a request, in bytes.
const ENVELOPE: u64 = 64 << 10;
/// Executions on one page when nothing is said, and at most.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 500;

/// The caller's word for a request that may come twice.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Says that an earlier request began the run.
const REPLAYED: &str = "idempotency-replayed";

/// What to run. `skillName` and `skill` stand for `skillId`, `input` for `args`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ExecutionRequest)]
pub(super) struct RunBody {
    /// The skill: its id, `name`, or `name@version-or-range`, with `#function` behind it where it has several.
    #[serde(alias = "skillName", alias = "skill")]
    skill_id: String,
    /// What goes in; an empty object if nothing is said.
    #[serde(alias = "input")]
    #[schema(value_type = serde_json::Value, required = false)]
    args: Option<Box<RawValue>>,
    /// A word of the caller's that ties runs together; at most 256 bytes.
    session_id: Option<String>,
    /// How to wait for the end.
    #[serde(default)]
    #[schema(inline)]
    mode: RunMode,
    /// Limits to tighten, or to loosen up to the ceilings.
    #[serde(default, deserialize_with = "crate::model::object")]
    #[schema(value_type = shapes::LimitsPatch)]
    limits: LimitsPatch,
    /// The same as `limits.timeoutMs`.
    timeout: Option<u64>,
    /// How often to try again at most; the same as `retry.maxRetries`.
    max_retries: Option<u32>,
    /// When to try again; what is not said is as the skill says.
    #[schema(value_type = Option<bodies::RetryPolicy>)]
    retry: Option<RetryPatch>,
    /// The digest that must run.
    #[schema(schema_with = shapes::digest, required = false)]
    digest: Option<Digest>,
    /// For whom; only the key's own owner.
    #[schema(value_type = Option<String>)]
    api_key_id: Option<OwnerId>,
    cpu_limit: Option<u64>,
    memory_limit: Option<u64>,
    network_enabled: Option<bool>,
    read_only: Option<bool>,
}

/// How to wait for the end of a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum RunMode {
    /// The answer comes when it has ended.
    #[default]
    Sync,
    /// The answer comes at once, and says where to look; the run begins when its turn comes.
    Async,
    /// The answer is a stream of events.
    Stream,
}

impl RunBody {
    fn into_request(self, caller: &Caller) -> Result<ExecutionRequest, Error> {
        self.refuse_what_has_no_effect()?;
        let limits = self.sandbox().limits(self.limits, Code::Malformed)?;
        let retry = self.retry_patch()?;
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
            retry,
            digest: self.digest,
            offline: self.network_enabled == Some(false),
            read_only: self.read_only == Some(true),
        })
    }

    fn retry_patch(&self) -> Result<RetryPatch, Error> {
        match (self.max_retries, &self.retry) {
            (Some(_), Some(_)) => {
                Err(Error::at(Code::Malformed, "/retry", "`retry` and `maxRetries` are the same; send one"))
            }
            (max_retries, None) => {
                let retry = RetryPatch { max_retries, ..RetryPatch::default() };
                retry.check("", Code::Malformed).map(|()| retry)
            }
            (None, Some(retry)) => retry.check("/retry", Code::Malformed).map(|()| retry.clone()),
        }
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
        refuse_without_effect(self.sandbox().without_effect())
    }
}

/// Runs a skill and waits for its end
///
/// Needs the scope `skills:execute`. 200 means that it ran: `status` says how it went. The same
/// request with the same `Idempotency-Key` gives the first one's run, for 24 hours, and
/// `Idempotency-Replayed: true`. With `mode` `async` the answer is 202 as soon as the request is
/// written down: the run begins when its turn comes, also after a restart of the host, and
/// `limits.timeoutMs` counts from there. `Location` says where to look. With `mode` `stream` the
/// answer is `text/event-stream`, with the events of `GET /api/skills/executions/{id}/events`; the
/// run is cancelled when its caller leaves, unless it has an `Idempotency-Key`.
///
/// Where the key has a rate, each answer says in `RateLimit-Policy` what it is, and in `RateLimit`
/// how many runs the key may start now (`r`) and after how many seconds it is one more (`t`). With
/// `async` a run counts for the rate when it is accepted, and for the key's budgets when it begins.
#[utoipa::path(
    post, path = "/api/skills/executions", tag = "executions", request_body = RunBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible ASCII characters")),
    responses(
        (
            status = 200, description = "The run, ended", body = wire::ExecutionBody,
            headers(
                ("RateLimit-Policy" = String, description = "The key's rate, where it has one: `q` runs in `w` seconds"),
                ("RateLimit" = String, description = "How many runs it may start now (`r`); one more in `t` seconds"),
            ),
        ),
        (
            status = 202, description = "The run, waiting for its turn", body = wire::ExecutionBody,
            headers(
                ("RateLimit-Policy" = String, description = "The key's rate, where it has one: `q` runs in `w` seconds"),
                ("RateLimit" = String, description = "How many runs it may start now (`r`); one more in `t` seconds"),
            ),
        ),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Authed(caller): Authed,
    headers: HeaderMap,
    content: Body,
) -> Response {
    let key = Arc::clone(&caller.key);
    let created = run(&app, caller, (headers, content)).await;
    let mut response = created.unwrap_or_else(IntoResponse::into_response);
    rate::tell(&mut response, app.host.executor.rate(&key));
    response
}

async fn run(app: &App, caller: Caller, (headers, content): (HeaderMap, Body)) -> Result<Response, Problem> {
    let limit = caller.key.max_limits().args_bytes.saturating_add(ENVELOPE);
    // Kept until the run has ended: its arguments take as much room.
    let mut room = app.held.room(caller.owner());
    let bytes = read::held(content, usize::try_from(limit).unwrap_or(usize::MAX), &mut room).await?;
    read::require_object(&bytes)?;
    let key = headers.get(IDEMPOTENCY_KEY).map(idempotency_key).transpose()?;
    let (request, idempotency, mode) = apart(bytes.len(), || {
        let body: RunBody = serde_json::from_slice(&bytes)
            .map_err(|error| Error::new(Code::Malformed, format!("the body cannot be read: {error}")))?;
        let idempotency = key.map(|key| Idempotency { key, request: Digest::of(&bytes) });
        let mode = body.mode;
        body.into_request(&caller).map(|request| (request, idempotency, mode))
    })?;
    drop(bytes);
    let executor = &app.host.executor;
    let cut = executor.cut(&caller, &request);
    // What is boxed is not part of each answer's state, which is moved from hand to hand.
    match mode {
        RunMode::Async => return Ok(submitted(&Box::pin(executor.submit(caller, request, idempotency)).await?, &cut)),
        RunMode::Stream => {
            let key = caller.key.id.clone();
            let streamed = Box::pin(executor.execute_followed(caller, request, idempotency)).await?;
            return Ok(streaming(app, streamed, (key, room)));
        }
        RunMode::Sync => {}
    }
    let Some(idempotency) = idempotency else {
        return Ok(json(wire::execution_with(&executor.execute(caller, request).await?, &cut)));
    };
    let once = Box::pin(executor.execute_once(caller, request, idempotency)).await?;
    Ok(answer(&once, &cut))
}

fn answer(once: &Once, cut: &[String]) -> Response {
    let mut response = json(wire::execution_with(&once.execution, cut));
    if once.replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// The answer to a request whose end nobody waits for.
fn submitted(once: &Once, cut: &[String]) -> Response {
    let mut response = answer(once, cut);
    if !once.execution.status.is_final() {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    locate(&mut response, once.execution.id);
    response
}

/// The answer to a request that is followed.
fn streaming(app: &App, streamed: Streamed, (key, room): (KeyId, Room)) -> Response {
    let mut response = events::stream(app, streamed.following, (0, key), room);
    locate(&mut response, streamed.id);
    if streamed.replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Says where the execution is.
fn locate(response: &mut Response, id: ExecutionId) {
    let location = HeaderValue::from_str(&format!("/api/skills/executions/{id}"));
    response.headers_mut().extend(location.ok().map(|location| (LOCATION, location)));
}

/// Shows an execution with its result
///
/// Without the scope `executions:read` only what the key itself started.
#[utoipa::path(
    get, path = "/api/skills/executions/{id}", tag = "executions",
    params(("id" = uuid::Uuid, Path, description = "Id of an execution")),
    responses((status = 200, description = "The execution", body = wire::ExecutionBody)),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(id): Segment,
) -> Result<Response, Problem> {
    let id: ExecutionId = id.parse().map_err(|_| Error::not_found("execution"))?;
    Ok(json(wire::execution(&app.host.get_execution(&caller, id).await?)))
}

/// Cancels an execution
///
/// Needs the scope `skills:execute`; without `executions:read` only for what the key itself
/// started. Answers when the guest has ended, with the execution.
#[utoipa::path(
    post, path = "/api/skills/executions/{id}/cancel", tag = "executions",
    params(("id" = uuid::Uuid, Path, description = "Id of an execution")),
    responses((status = 200, description = "The execution, cancelled", body = wire::ExecutionBody)),
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(id): Segment,
) -> Result<Response, Problem> {
    let id: ExecutionId = id.parse().map_err(|_| Error::not_found("execution"))?;
    Ok(json(wire::execution(&app.host.executor.cancel(&caller, id).await?)))
}

/// What to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Runs of this skill, by `name` or `name@version`.
    skill: Option<String>,
    /// Runs that stand so.
    #[param(schema_with = shapes::status, required = false)]
    status: Option<String>,
    /// Runs of this owner; admin keys only.
    #[param(value_type = Option<String>)]
    owner: Option<OwnerId>,
    /// Runs of this session.
    #[serde(alias = "sessionId")]
    session: Option<String>,
    /// Runs from this time on.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<jiff::Timestamp>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
    /// How many on a page: 1 to 500, 50 if nothing is said.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// Lists executions, newest first
///
/// Without the scope `executions:read` only what the key itself started.
#[utoipa::path(
    get, path = "/api/skills/executions", tag = "executions", params(ListQuery),
    responses((status = 200, description = "A page of executions", body = bodies::ExecutionPage)),
)]
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
        names: None,
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

fn idempotency_key(value: &HeaderValue) -> Result<IdempotencyKey, Error> {
    // What is not ASCII is no key either.
    value.to_str().unwrap_or_default().parse()
}

fn json(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}
