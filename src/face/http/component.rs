//! `/api/skills/{reference}/component`: the bytes that were uploaded.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_LENGTH, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio_util::io::ReaderStream;

use crate::model::{Error, SkillRef};

use super::App;
use super::auth::Authed;
use super::bodies;
use super::headers::attachment;
use super::problem::Problem;
use super::read::Segment;

/// Gives the component of a skill
///
/// The bytes that were uploaded; their digest is the `ETag`. Needs the scope `skills:read`.
#[utoipa::path(
    get, path = "/api/skills/{reference}/component", tag = "skills",
    params(
        ("reference" = String, Path, description = "Id, `name`, or `name@version-or-range`"),
        ("if-none-match" = Option<String>, Header, description = "An `ETag` of before"),
    ),
    responses(
        (status = 200, description = "The component", content_type = "application/wasm", body = bodies::Component),
        (status = 304, description = "It is the one of that `ETag`"),
    ),
)]
pub(crate) async fn download(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(reference): Segment,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (found, file) = app.host.registry.component(&caller, &reference.parse::<SkillRef>()?).await?;
    let skill = &found.skill;
    let tag = format!("\"{}\"", skill.handler.digest());
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag)) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response());
    }
    let bytes = file.metadata().await.map_err(Error::internal)?.len();
    let saved = attachment("application/wasm", &format!("{}-{}.wasm", skill.name, skill.version));
    let headers = [(CONTENT_LENGTH, bytes.to_string()), (ETAG, tag)];
    Ok((saved, headers, Body::from_stream(ReaderStream::with_capacity(file, 64 << 10))).into_response())
}
