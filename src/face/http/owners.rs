//! `/api/owners`: who has something here, and removing all of it.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::model::Error;

use super::App;
use super::auth::Authed;
use super::problem::Problem;
use super::read::Segment;

/// An owner.
#[derive(Serialize, ToSchema)]
#[schema(as = Owner)]
pub(super) struct OwnerBody {
    /// Its name.
    id: String,
    /// How many keys it has that were not revoked.
    keys: u64,
    /// How many versions of skills it has.
    skills: u64,
    /// How many of its executions are in the audit.
    executions: u64,
}

/// All owners, by name.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "described, never built")]
pub(super) struct OwnerPage {
    /// The owners.
    owners: Vec<OwnerBody>,
    /// Where the next page begins; null on the last.
    #[schema(required = true)]
    next_cursor: Option<String>,
    /// How many there are on all pages.
    total: u64,
}

/// What was erased.
#[derive(Serialize, ToSchema)]
#[schema(as = ErasedOwner)]
pub(super) struct ErasedBody {
    /// Who.
    id: String,
    /// How many records of the audit are nobody's from now on.
    erased: u64,
}

/// Lists owners
///
/// Who was erased is there as a pseudonym, as long as the audit has something. Needs the scope `admin`.
#[utoipa::path(
    get, path = "/api/owners", tag = "owners",
    responses((status = 200, description = "Everybody who has something here, by name", body = OwnerPage)),
)]
pub(crate) async fn list(State(app): State<App>, Authed(caller): Authed) -> Result<Json<Value>, Problem> {
    let owners = app.host.owners(&caller).await?.into_iter().map(|(id, [keys, skills, executions])| OwnerBody {
        id: id.to_string(),
        keys,
        skills,
        executions,
    });
    let owners: Vec<_> = owners.collect();
    Ok(Json(json!({ "total": owners.len(), "owners": owners, "nextCursor": null })))
}

/// Erases an owner
///
/// Its keys end, its runs are cancelled, and its skills, files, secrets, results and what skills keep for it are
/// removed. Records of the audit stay, without what tells whose they were. What is interrupted is gone on with by
/// the same request, or by the next start. Needs the scope `admin`, of a key of another owner.
#[utoipa::path(
    delete, path = "/api/owners/{id}", tag = "owners", params(("id" = String, Path, description = "The owner")),
    responses((status = 200, description = "Nothing of it is left", body = ErasedBody)),
)]
pub(crate) async fn erase(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(id): Segment,
) -> Result<Json<ErasedBody>, Problem> {
    caller.key.require(crate::model::Scope::Admin)?;
    let owner = id.parse().map_err(|_| Error::not_found("owner"))?;
    let erased = app.host.erase_owner(&caller, owner).await?;
    Ok(Json(ErasedBody { id, erased }))
}
