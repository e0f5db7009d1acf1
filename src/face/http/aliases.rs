//! `/api/skills/{reference}/aliases/{alias}`: words that stand for versions.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use semver::Version;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::model::{Alias, Code, Error, SkillRef, quotable};
use crate::registry::AliasMove;

use super::auth::Authed;
use super::problem::Problem;
use super::read::{self, TwoSegments};
use super::skills::shown;
use super::{App, wire};

/// Where an alias is to point.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AliasRequest)]
pub(super) struct AliasBody {
    /// The version, without a range.
    version: String,
    /// Where it must point now; else it is a `conflict`.
    from: Option<String>,
}

/// Lets an alias stand for a version, or moves it
///
/// `name@alias` means that version from then on; moving it back is a rollback. Needs the scope
/// `skills:write`. Answers with the version.
#[utoipa::path(
    put, path = "/api/skills/{reference}/aliases/{alias}", tag = "skills", operation_id = "put_alias",
    params(
        ("reference" = String, Path, description = "`name`, or the id of one version"),
        ("alias" = String, Path, description = "1 to 64 of a-z, 0-9 and -, a letter first; no range and not `latest`"),
    ),
    request_body = AliasBody,
    responses((status = 200, description = "The version that it stands for", body = wire::SkillBody)),
)]
pub(crate) async fn put(
    State(app): State<App>,
    Authed(caller): Authed,
    TwoSegments(reference, alias): TwoSegments,
    content: Body,
) -> Result<Json<Value>, Problem> {
    let asked: AliasBody = read::json(content).await?;
    let (reference, alias) = (reference.parse::<SkillRef>()?, alias.parse::<Alias>()?);
    let to = version("/version", &asked.version)?;
    let from = asked.from.map(|from| version("/from", &from)).transpose()?;
    let found = app.host.registry.move_alias(&caller, &reference, AliasMove { alias, to, from }).await?;
    Ok(Json(shown(&app, &found)))
}

/// Takes an alias away
///
/// The version stays. Needs the scope `skills:write`.
#[utoipa::path(
    delete, path = "/api/skills/{reference}/aliases/{alias}", tag = "skills", operation_id = "remove_alias",
    params(
        ("reference" = String, Path, description = "`name`, or the id of one version"),
        ("alias" = String, Path, description = "The alias"),
    ),
    responses((status = 204, description = "It is gone")),
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Authed(caller): Authed,
    TwoSegments(reference, alias): TwoSegments,
) -> Result<StatusCode, Problem> {
    let reference = reference.parse::<SkillRef>()?;
    app.host.registry.remove_alias(&caller, &reference, alias.parse::<Alias>()?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A whole version: what an alias means must not depend on what is pushed later.
fn version(pointer: &str, text: &str) -> Result<Version, Error> {
    Version::parse(text).map_err(|error| {
        let detail = format!("{:?} is not a SemVer 2.0 version: {error}", quotable(text));
        Error::at(Code::Malformed, pointer, detail)
    })
}
