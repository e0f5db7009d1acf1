//! `/api/skills/{reference}/skill.md`: what was written about a skill.

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::model::SkillRef;

use super::App;
use super::auth::Authed;
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
    let name = format!("attachment; filename=\"{}-{}.md\"", found.skill.name, found.skill.version);
    let headers = [
        (CONTENT_TYPE, "text/markdown; charset=utf-8".to_owned()),
        (CONTENT_DISPOSITION, name),
        (CONTENT_SECURITY_POLICY, "sandbox".to_owned()),
    ];
    Ok((headers, text).into_response())
}
