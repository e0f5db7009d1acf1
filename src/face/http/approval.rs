//! `/api/skills/{reference}/diff` and `…/approve`: what a version may do more, and accepting it.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::model::{SkillRef, VersionSelector};
use crate::registry::{Change, ChangeKind};

use super::auth::Authed;
use super::problem::Problem;
use super::read::Segment;
use super::skills::shown;
use super::{App, shapes, wire};

/// What to compare with.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DiffQuery {
    /// A version, range or alias of the same skill. If nothing is said, the highest lower version
    /// that does not wait for approval.
    from: Option<String>,
}

/// What differs between two versions.
#[derive(Serialize, ToSchema)]
#[schema(as = Difference)]
pub(super) struct DifferenceBody<'a> {
    /// The newer one as `name@version`.
    skill: &'a str,
    /// The older one; null if there is none, and what is granted is compared with nothing.
    #[schema(required = true)]
    from: Option<&'a str>,
    /// Whether the newer one may do more, or says something else to models.
    grows: bool,
    /// Whether somebody has to accept the newer one before it may run, or did.
    #[schema(schema_with = shapes::approval)]
    approval: &'static str,
    /// Each difference.
    changes: Vec<ChangeBody<'a>>,
}

/// One difference.
#[derive(Serialize, ToSchema)]
#[schema(as = Change)]
pub(super) struct ChangeBody<'a> {
    /// JSON pointer into the skill; functions go by their names.
    path: &'a str,
    /// `added`, `removed` or `changed`.
    #[schema(schema_with = shapes::change_kind)]
    kind: ChangeKind,
    /// Whether the newer version may do more by it, or says something else to models.
    grows: bool,
    /// What it was.
    from: &'a Value,
    /// What it is.
    to: &'a Value,
    /// The same in a sentence.
    says: &'a str,
}

impl<'a> ChangeBody<'a> {
    fn of(change: &'a Change) -> Self {
        let Change { path, kind, grows, from, to, says } = change;
        Self { path, kind: *kind, grows: *grows, from, to, says }
    }
}

/// Says what a version may do or tells models that another does not
///
/// Grants, limits, functions, descriptions and schemas. Needs the scope `skills:read`.
#[utoipa::path(
    get, path = "/api/skills/{reference}/diff", tag = "skills",
    params(("reference" = String, Path, description = "Id, `name`, or `name@version-or-range`"), DiffQuery),
    responses((status = 200, description = "What differs", body = DifferenceBody)),
)]
pub(crate) async fn difference(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(reference): Segment,
    query: Result<Query<DiffQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(query) = query?;
    let from = query.from.map(|from| from.parse::<VersionSelector>()).transpose()?;
    let difference = app.host.registry.difference(&caller, &reference.parse::<SkillRef>()?, from.as_ref()).await?;
    let body = DifferenceBody {
        skill: &difference.skill.address,
        from: difference.from.as_ref().map(|from| &*from.address),
        grows: difference.grows(),
        approval: difference.skill.skill.approval.as_str(),
        changes: difference.changes.iter().map(ChangeBody::of).collect(),
    };
    Ok(Json(serde_json::to_value(body).unwrap_or_default()))
}

/// Lets a version run that waits for approval
///
/// One that does not wait stays as it is. Needs the scope `skills:approve`.
#[utoipa::path(
    post, path = "/api/skills/{reference}/approve", tag = "skills",
    params(("reference" = String, Path, description = "Id, or an exact `name@version`")),
    responses((status = 200, description = "The skill as it is now", body = wire::SkillBody)),
)]
pub(crate) async fn approve(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(reference): Segment,
) -> Result<Json<Value>, Problem> {
    let found = app.host.registry.approve(&caller, &reference.parse::<SkillRef>()?).await?;
    Ok(Json(shown(&app, &found)))
}
