//! `/api/interceptors/{id}/dead-letters`: what a webhook could not be told.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::model::{Clock, Code, Error, ExecutionId, Scope};
use crate::store::DeadLetter;

use super::App;
use super::auth::Authed;
use super::interceptors::interceptor_id;
use super::problem::Problem;
use super::read::{Segment, TwoSegments};

/// Dead letters on one page when nothing is said, and at most.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 500;

/// Which page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// `nextCursor` of the page before.
    cursor: Option<String>,
    /// How many at most: 1 to 500.
    limit: Option<u32>,
}

/// Something that a webhook could not be told.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeadLetter)]
pub(super) struct DeadLetterBody<'a> {
    /// Its number among those of the webhook.
    n: u64,
    /// Of which execution.
    #[schema(value_type = uuid::Uuid)]
    execution_id: ExecutionId,
    /// How often it was tried.
    attempts: u32,
    /// Why it was given up.
    problem: &'a str,
    /// When.
    #[schema(format = DateTime)]
    died_at: String,
}

impl<'a> From<&'a DeadLetter> for DeadLetterBody<'a> {
    fn from(letter: &'a DeadLetter) -> Self {
        Self {
            n: letter.number,
            execution_id: letter.execution,
            attempts: letter.attempts,
            problem: &letter.problem,
            died_at: Clock::rfc3339(letter.at),
        }
    }
}

/// What a webhook could not be told, oldest first.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "described, never built")]
pub(super) struct DeadLetterPage<'a> {
    /// The dead letters.
    dead_letters: Vec<DeadLetterBody<'a>>,
    /// Where the next page begins; null on the last.
    #[schema(required = true)]
    next_cursor: Option<String>,
    /// How many there are on all pages.
    total: u64,
}

/// Lists what a webhook could not be told
///
/// The oldest first; of more than 10,000 the oldest are forgotten. Needs the scope `interceptors:write`.
#[utoipa::path(
    get, path = "/api/interceptors/{id}/dead-letters", tag = "interceptors", operation_id = "dead_letters",
    params(("id" = String, Path, description = "Id of a webhook"), PageQuery),
    responses((status = 200, description = "The dead letters, oldest first", body = DeadLetterPage)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(id): Segment,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    caller.key.require(Scope::InterceptorsWrite)?;
    let Query(PageQuery { cursor, limit }) = query?;
    let malformed = |field: &str, why: &str| Error::at(Code::Malformed, format!("/{field}"), why);
    let after = cursor.map_or(Ok(0), |text| text.parse::<u32>().map(u64::from));
    let after = after.map_err(|_| malformed("cursor", "is not one that a page gave"))?;
    let limit = limit.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(malformed("limit", "must be 1 to 500").into());
    }
    let found = app.host.interceptors.dead_letters(&caller, interceptor_id(&id)?, (after, limit)).await?;
    let (letters, more, total) = found;
    let next = letters.last().filter(|_| more).map(|letter| letter.number.to_string());
    let letters: Vec<_> = letters.iter().map(DeadLetterBody::from).collect();
    Ok(Json(json!({ "deadLetters": letters, "nextCursor": next, "total": total })))
}

/// Has a webhook told once more
///
/// With as many attempts as the first time. Needs the scope `interceptors:write`.
#[utoipa::path(
    post, path = "/api/interceptors/{id}/dead-letters/{n}/retry", tag = "interceptors", operation_id = "retry_dead_letter",
    params(
        ("id" = String, Path, description = "Id of a webhook"),
        ("n" = String, Path, description = "Number of a dead letter"),
    ),
    responses((status = 204, description = "It is no dead letter any more, and is told soon")),
)]
pub(crate) async fn retry(
    State(app): State<App>,
    Authed(caller): Authed,
    TwoSegments(id, number): TwoSegments,
) -> Result<StatusCode, Problem> {
    caller.key.require(Scope::InterceptorsWrite)?;
    let number: u32 = number.parse().map_err(|_| Error::not_found("dead letter"))?;
    app.host.interceptors.retry(&caller, interceptor_id(&id)?, u64::from(number)).await?;
    Ok(StatusCode::NO_CONTENT)
}
