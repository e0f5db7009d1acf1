//! `/api/skills/{reference}/versions`.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use semver::Version;
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use crate::model::{Code, Error, SkillRef, quotable};

use super::auth::Authed;
use super::problem::Problem;
use super::read::Segment;
use super::skills::{MAX_PAGE, PAGE, page_text};
use super::{App, bodies};

/// Which page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct VersionsQuery {
    /// `nextCursor` of the page before.
    cursor: Option<String>,
    /// How many on a page: 1 to 500, 50 if nothing is said; fewer where they are large.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// Lists the versions of a skill, highest first
///
/// Own ones hide global ones of the same number. Needs the scope `skills:read`.
#[utoipa::path(
    get, path = "/api/skills/{reference}/versions", tag = "skills", operation_id = "versions",
    params(("reference" = String, Path, description = "`name`, or the id of one version"), VersionsQuery),
    responses((status = 200, description = "A page of versions", body = bodies::VersionPage)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(reference): Segment,
    query: Result<Query<VersionsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query?;
    let mut found = app.host.registry.line(&caller, &reference.parse::<SkillRef>()?)?;
    let total = found.len();
    if let Some(cursor) = query.cursor {
        // A version is its own place: it stays one when it is deleted.
        let below = Version::parse(&cursor).map_err(|_| {
            let detail = format!("{:?} is not a `nextCursor` of this list", quotable(&cursor));
            Error::new(Code::Malformed, detail)
        })?;
        found.retain(|found| found.skill.version < below);
    }
    let page = page_text(&app, &found, query.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE));
    let last = (page.len() < found.len()).then(|| page.len().checked_sub(1)).flatten();
    let next = Value::from(last.and_then(|last| found.get(last)).map(|last| last.skill.version.to_string()));
    let text = format!("{{\"versions\":[{}],\"nextCursor\":{next},\"total\":{total}}}", page.join(","));
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}
