//! `/api/skills/tools`: skills as tools in the formats of those who make models, and running what a model calls.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::face::tools::{self, Answer, Budget, offer};
use crate::model::{Caller, Code, Error, IdempotencyKey};

use super::auth::Authed;
use super::executions::IDEMPOTENCY_KEY;
use super::problem::Problem;
use super::{App, read};

/// Skills of mode `auto` that are offered where nobody says how many, and most of them.
const FEW: u32 = 5;
const MANY: u32 = 50;
/// Largest response of a model, in bytes.
const MAX_RESPONSE: usize = 16 << 20;
/// Bytes of one result, where nobody says, and most of them.
const RESULT: u32 = 64 << 10;
const LARGEST_RESULT: u32 = 1 << 20;
/// Time for all calls, where nobody says, and most of it, in milliseconds.
const TIME_MS: u32 = 120_000;
const LONGEST_MS: u32 = 600_000;

/// What a model is about to be offered.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ToolsQuery {
    /// `openai`, `openai-responses`, `anthropic` or `gemini`; `openai` if nothing is said.
    format: Option<String>,
    /// What the model is about: finds skills of mode `auto`.
    context: Option<String>,
    /// Most skills of mode `auto`: 0 to 50, 5 if nothing is said.
    #[param(maximum = 50)]
    limit: Option<u32>,
}

/// What a model is about to be offered.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ToolsRequest)]
pub(crate) struct ToolsBody {
    /// `openai`, `openai-responses`, `anthropic` or `gemini`; `openai` if nothing is said.
    format: Option<String>,
    /// What the model is about, as a text, or as anything with texts in it, such as the messages so far: finds
    /// skills of mode `auto`.
    context: Option<Value>,
    /// Most skills of mode `auto`: 0 to 50, 5 if nothing is said.
    #[schema(maximum = 50)]
    limit: Option<u32>,
}

/// Tools for a model.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolPage {
    /// The format that they are in.
    format: &'static str,
    /// What stands in `tools` of a request to that provider.
    tools: Vec<Value>,
    /// How many there are; a provider takes 128 at most, and no more are shown.
    total: usize,
}

/// How calls are run.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct CallsQuery {
    /// `openai`, `openai-responses`, `anthropic` or `gemini`; found by the response if nothing is said.
    format: Option<String>,
    /// Most bytes of one result; all together have four times as many. 65,536 if nothing is said.
    #[param(minimum = 256, maximum = 1_048_576)]
    max_bytes: Option<u32>,
    /// Time for all calls together. 120,000 if nothing is said.
    #[param(minimum = 1, maximum = 600_000)]
    timeout_ms: Option<u32>,
}

/// What became of the calls in a response.
#[derive(ToSchema)]
#[schema(as = ToolResults)]
#[expect(dead_code, reason = "described, never built")]
pub(crate) struct CallsAnswer {
    /// What goes back to the model, in its format, in the order of the calls.
    results: Vec<Value>,
    /// The ids of calls of tools that are not here; of a call without an id, its place, from 0.
    passthrough: Vec<String>,
    /// The runs that the others became.
    executions: Vec<RanBody>,
}

/// The run that a call became.
#[derive(ToSchema)]
#[schema(as = ToolRun, rename_all = "camelCase")]
#[expect(dead_code, reason = "described, never built")]
pub(crate) struct RanBody {
    /// The call's id; its place, from 0, where it has none.
    call_id: String,
    /// The execution.
    execution_id: uuid::Uuid,
    /// How it ended.
    #[schema(schema_with = super::shapes::status)]
    status: String,
}

/// Lists skills as tools for a model
///
/// All that are `on`, and of those that are `auto` the ones that have most to do with `context`. Needs the scope
/// `skills:read`; a key without `skills:execute` is offered none.
#[utoipa::path(
    get, path = "/api/skills/tools", tag = "tools", operation_id = "list", params(ToolsQuery),
    responses((status = 200, description = "Tools, as the provider wants them", body = ToolPage)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Authed(caller): Authed,
    query: Result<Query<ToolsQuery>, QueryRejection>,
) -> Result<Json<ToolPage>, Problem> {
    let Query(ToolsQuery { format, context, limit }) = query?;
    Ok(Json(page(&app, &caller, (format, context, limit))?))
}

/// Lists skills as tools for a model, with a longer context
///
/// As `GET`, with what the model is about in the body.
#[utoipa::path(
    post, path = "/api/skills/tools", tag = "tools", operation_id = "find", request_body = ToolsBody,
    responses((status = 200, description = "Tools, as the provider wants them", body = ToolPage)),
)]
pub(crate) async fn find(
    State(app): State<App>,
    Authed(caller): Authed,
    content: Body,
) -> Result<Json<ToolPage>, Problem> {
    let ToolsBody { format, context, limit } = read::json(content).await?;
    Ok(Json(page(&app, &caller, (format, context.map(|context| texts(&context)), limit))?))
}

fn page(
    app: &App,
    caller: &Caller,
    (format, context, limit): (Option<String>, Option<String>, Option<u32>),
) -> Result<ToolPage, Error> {
    let format = tools::named(format.as_deref().unwrap_or("openai"))?;
    let few = within("limit", limit, FEW, 0..=MANY)?;
    let offer = offer(&app.host, caller, context.as_deref(), few as usize)?;
    Ok(ToolPage { format: format.name(), tools: format.definitions(&offer.tools), total: offer.total })
}

/// Runs the tools that a model calls
///
/// Takes a model's response as it came. Calls of tools that are skills run, at the same time, and their results come
/// in the provider's format; calls of other tools are left alone. Arguments that are no JSON are an error for the
/// model. The same response again runs nothing again, for 24 hours; `Idempotency-Key` tells apart responses that
/// have no id of their own. Needs the scope `skills:execute`.
#[utoipa::path(
    post, path = "/api/skills/tools/calls", tag = "tools", operation_id = "call",
    params(CallsQuery, ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible ASCII characters")),
    request_body(content = Value, description = "The response, as the provider sent it"),
    responses((status = 200, description = "What became of the calls", body = CallsAnswer)),
)]
pub(crate) async fn call(
    State(app): State<App>,
    Authed(caller): Authed,
    query: Result<Query<CallsQuery>, QueryRejection>,
    headers: HeaderMap,
    content: Body,
) -> Result<Json<Answer>, Problem> {
    let Query(CallsQuery { format, max_bytes, timeout_ms }) = query?;
    let word = headers.get(IDEMPOTENCY_KEY).map(|value| value.to_str().unwrap_or_default().parse::<IdempotencyKey>());
    let word = word.transpose()?;
    let time = within("timeoutMs", timeout_ms, TIME_MS, 1..=LONGEST_MS)?;
    let bytes = within("maxBytes", max_bytes, RESULT, 256..=LARGEST_RESULT)?;
    let budget = Budget { time: Duration::from_millis(time.into()), bytes: bytes as usize };
    let mut room = app.held.room(caller.owner());
    let bytes = read::held(content, MAX_RESPONSE, &mut room).await?;
    read::require_object(&bytes)?;
    let text = read::text(&bytes)?;
    let format = match format {
        Some(format) => tools::named(&format)?,
        None => tools::format_of(text)?,
    };
    let word = word.as_ref().map(IdempotencyKey::as_str);
    Ok(Json(tools::run((&app.host, &caller), format, (text, word), budget).await?))
}

fn within(name: &str, asked: Option<u32>, usual: u32, allowed: std::ops::RangeInclusive<u32>) -> Result<u32, Error> {
    let asked = asked.unwrap_or(usual);
    if allowed.contains(&asked) {
        return Ok(asked);
    }
    let detail = format!("must be {} to {}", allowed.start(), allowed.end());
    Err(Error::at(Code::Malformed, format!("/{name}"), detail))
}

/// All texts in a value.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(texts).collect::<Vec<_>>().join("\n"),
        Value::Object(members) => members.values().map(texts).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}
