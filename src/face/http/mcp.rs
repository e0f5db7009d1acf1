//! `/mcp`: the Model Context Protocol over HTTP. What it says is `face::mcp`'s affair.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;

use crate::face::mcp::Incoming;
use crate::model::{Caller, Code, Door, Error, Secret};

use super::App;
use super::auth;
use super::held::Room;
use super::problem::Problem;
use super::read;

/// Room for what stands around the arguments in a message, in bytes.
const ENVELOPE: u64 = 64 << 10;

/// Sends a message of the Model Context Protocol
///
/// Streamable HTTP, of revision 2026-07-28 and the older ones. Each function that the key may
/// run is a tool.
#[utoipa::path(
    post, path = "/mcp", tag = "mcp", request_body = serde_json::Value,
    responses((status = 200, description = "The answer, or a stream of messages", body = serde_json::Value)),
)]
pub(crate) async fn send(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let (caller, secret) = known(&app, &parts)?;
    let is_json =
        |kind: &str| kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json");
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(is_json) {
        return Err(Problem(Error::new(Code::UnsupportedMediaType, "a message is `application/json`")));
    }
    // Kept until the answer is out: a run's arguments take as much room.
    let mut room = app.held.room(caller.owner());
    let limit = caller.key.max_limits().args_bytes.saturating_add(ENVELOPE);
    let body = read::held(body, usize::try_from(limit).unwrap_or(usize::MAX), &mut room).await?;
    answer(&app, Incoming { parts, body, caller, secret, kept: Box::new(room) }).await
}

/// Listens, in a session of a revision before 2026-07-28
#[utoipa::path(
    get, path = "/mcp", tag = "mcp",
    responses((status = 200, description = "A stream of messages", body = String, content_type = "text/event-stream")),
)]
pub(crate) async fn listen(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    without_body(&app, request).await
}

/// Ends a session of a revision before 2026-07-28
#[utoipa::path(
    delete, path = "/mcp", tag = "mcp",
    responses((status = 202, description = "It has ended")),
)]
pub(crate) async fn end(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    without_body(&app, request).await
}

async fn without_body(app: &App, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let (caller, secret) = known(app, &parts)?;
    let kept = Box::new(None::<Room>);
    answer(app, Incoming { parts, body: Bytes::new(), caller, secret, kept }).await
}

/// Who asks, from a site that may.
fn known(app: &App, parts: &Parts) -> Result<(Caller, Secret), Problem> {
    app.sites.require(parts)?;
    let (caller, secret) = auth::known(parts, app, Door::Mcp)?;
    let secret = Secret::new(secret).map_err(|_| Error::new(Code::Unauthenticated, "no bearer key was sent"))?;
    Ok((caller, secret))
}

async fn answer(app: &App, incoming: Incoming) -> Result<Response, Problem> {
    Ok(app.mcp.answer(incoming).await?.map(Body::new))
}
