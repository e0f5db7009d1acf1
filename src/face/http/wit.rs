//! `/api/skills/{reference}/wit`: the types of a component.

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::model::SkillRef;

use super::App;
use super::auth::Authed;
use super::headers::attachment;
use super::problem::Problem;
use super::read::Segment;

/// Gives the WIT of a skill's component
///
/// What it imports and exports, as text. A core module has none. Needs the scope `skills:read`.
#[utoipa::path(
    get, path = "/api/skills/{reference}/wit", tag = "skills", operation_id = "wit",
    params(("reference" = String, Path, description = "Id, `name`, or `name@version-or-range`")),
    responses((status = 200, description = "The WIT", content_type = "text/plain", body = String)),
)]
pub(crate) async fn wit(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(reference): Segment,
) -> Result<Response, Problem> {
    let (found, text) = app.host.registry.wit(&caller, &reference.parse::<SkillRef>()?).await?;
    let name = format!("{}-{}.wit", found.skill.name, found.skill.version);
    Ok((attachment("text/plain; charset=utf-8", &name), text).into_response())
}
