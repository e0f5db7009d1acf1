//! `/api/skills/{reference}/skill.md`: what was written about a skill.

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::model::SkillRef;

use super::App;
use super::auth::Authed;
use super::headers::attachment;
use super::problem::Problem;
use super::read::Segment;

/// Gives the `SKILL.md` of a skill
///
/// As it came with the skill folder, front matter and manifest included. A skill that came without is
/// 404. Needs the scope `skills:read`.
#[utoipa::path(
    get, path = "/api/skills/{reference}/skill.md", tag = "skills", operation_id = "skill_md",
    params(("reference" = String, Path, description = "Id, `name`, or `name@version-or-range`")),
    responses((status = 200, description = "The text", content_type = "text/markdown", body = String)),
)]
pub(crate) async fn skill_md(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(reference): Segment,
) -> Result<Response, Problem> {
    let (found, text) = app.host.registry.skill_md(&caller, &reference.parse::<SkillRef>()?).await?;
    let name = format!("{}-{}.md", found.skill.name, found.skill.version);
    Ok((attachment("text/markdown; charset=utf-8", &name), text).into_response())
}
