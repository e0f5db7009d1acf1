//! `/api/skills`: uploading, listing and changing skills.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{FromRequest, Multipart, Path, Query, Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{Code, Error, Mode, OwnerId, Scope, SkillRef, SkillState, Tag};
use crate::registry::{Manifest, Registered, StagedComponent};

use super::App;
use super::auth::Authed;
use super::keys::body;
use super::problem::Problem;
use super::staging::stage;
use super::wire;

/// Largest manifest, in bytes.
const MAX_MANIFEST: usize = 512 << 10;
/// Skills on one page.
const MAX_PAGE: usize = 500;

/// What a raw upload may say in its query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UploadQuery {
    name: Option<String>,
    version: Option<String>,
    description: Option<String>,
    owner: Option<OwnerId>,
}

/// Takes a component: `POST /api/skills`.
pub(crate) async fn upload(
    State(app): State<App>,
    Authed(caller): Authed,
    query: Result<Query<UploadQuery>, QueryRejection>,
    request: Request,
) -> Result<Response, Problem> {
    caller.key.require(Scope::SkillsWrite)?;
    let Query(query) = query?;
    let now = prefers_async(request.headers());
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let (mut manifest, component) = match kind.split(';').next().map(str::trim) {
        Some("application/wasm") => (Manifest::default(), stage(&app, request.into_body().into_data_stream()).await?),
        Some("multipart/form-data") => parts(&app, request).await?,
        _ => {
            let detail = "send application/wasm, or multipart/form-data with `manifest` and `component`";
            return Err(Error::new(Code::UnsupportedMediaType, detail).into());
        }
    };
    manifest.name = query.name.or(manifest.name);
    manifest.version = query.version.or(manifest.version);
    manifest.description = query.description.or(manifest.description);
    manifest.owner = query.owner.or(manifest.owner);
    let registered = app.host.registry.register(&caller, manifest, component, now).await?;
    Ok(registered_response(&registered))
}

/// The two parts of a multipart upload, in any order.
async fn parts(app: &App, request: Request<Body>) -> Result<(Manifest, StagedComponent), Error> {
    let bad =
        |error: &dyn std::fmt::Display| Error::new(Code::Malformed, format!("not readable as multipart: {error}"));
    let mut form = Multipart::from_request(request.map(Body::new), &()).await.map_err(|error| bad(&error))?;
    let (mut manifest, mut component) = (None, None);
    while let Some(mut part) = form.next_field().await.map_err(|error| bad(&error))? {
        match part.name() {
            Some("manifest") if manifest.is_none() => {
                let mut text = Vec::new();
                while let Some(chunk) = part.chunk().await.map_err(|error| bad(&error))? {
                    text.extend_from_slice(&chunk);
                    if text.len() > MAX_MANIFEST {
                        return Err(Error::new(
                            Code::TooLarge,
                            format!("the manifest has more than {MAX_MANIFEST} bytes"),
                        ));
                    }
                }
                let text =
                    String::from_utf8(text).map_err(|_| Error::new(Code::Malformed, "the manifest is not UTF-8"))?;
                manifest = Some(Manifest::parse(&text)?);
            }
            Some("component") if component.is_none() => component = Some(stage(app, part).await?),
            other => {
                let name = crate::model::plain(other.unwrap_or(""), 80);
                return Err(Error::new(
                    Code::Malformed,
                    format!("unexpected part {name:?}; send `manifest` and `component` once each"),
                ));
            }
        }
    }
    let component = component.ok_or_else(|| Error::new(Code::Malformed, "the part `component` is missing"))?;
    Ok((manifest.unwrap_or_default(), component))
}

/// Registers by manifest alone: `POST /api/skills/skillssh`.
pub(crate) async fn register(
    State(app): State<App>,
    Authed(caller): Authed,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let bytes = bytes?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Error::new(Code::Malformed, "the body is not UTF-8"))?;
    let registered = app.host.registry.register_manifest(&caller, Manifest::parse(text)?).await?;
    Ok(registered_response(&registered))
}

fn prefers_async(headers: &HeaderMap) -> bool {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("respond-async"))
}

fn registered_response(registered: &Registered) -> Response {
    let skill = &registered.skill().skill;
    let status = match registered {
        _ if skill.state == SkillState::Compiling => StatusCode::ACCEPTED,
        Registered::Created(_) => StatusCode::CREATED,
        Registered::Unchanged(_) => StatusCode::OK,
    };
    (status, [(LOCATION, format!("/api/skills/{}", skill.id))], Json(wire::skill(skill))).into_response()
}

/// What to list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    q: Option<String>,
    mode: Option<Mode>,
    source: Option<String>,
    tag: Option<Tag>,
    owner: Option<OwnerId>,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// Lists own and global skills: `GET /api/skills`.
pub(crate) async fn list(
    State(app): State<App>,
    Authed(caller): Authed,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(query) = query?;
    let text = query.q.map(|text| text.to_lowercase());
    let mut found = app.host.registry.list(&caller)?;
    found.retain(|found| {
        let skill = &found.skill;
        let has = |text: &String| skill.name.as_str().contains(text) || skill.description.to_lowercase().contains(text);
        text.as_ref().is_none_or(has)
            && query.mode.is_none_or(|mode| mode == skill.mode)
            && query.source.as_ref().is_none_or(|source| *source == skill.source_provider)
            && query.tag.as_ref().is_none_or(|tag| skill.tags.contains(tag))
            && query.owner.as_ref().is_none_or(|owner| *owner == skill.owner)
    });
    let total = found.len();
    let start = match query.cursor {
        Some(cursor) => found.iter().position(|found| found.skill.id.to_string() == cursor).map_or(total, |at| at + 1),
        None => 0,
    };
    let limit = query.limit.unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE);
    let page: Vec<_> = found.iter().skip(start).take(limit).collect();
    let next = page.last().filter(|_| start + page.len() < total).map(|last| last.skill.id.to_string());
    let skills: Vec<_> = page.iter().map(|found| wire::skill(&found.skill)).collect();
    Ok(Json(json!({ "skills": skills, "nextCursor": next, "total": total })))
}

/// Shows one skill: `GET /api/skills/{ref}`.
pub(crate) async fn show(
    State(app): State<App>,
    Authed(caller): Authed,
    Path(reference): Path<String>,
) -> Result<Json<Value>, Problem> {
    let found = app.host.registry.get(&caller, &reference.parse::<SkillRef>()?)?;
    Ok(Json(wire::skill(&found.skill)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeBody {
    enabled: Option<bool>,
    mode: Option<Mode>,
    tags: Option<Vec<Tag>>,
}

/// Changes what may change: `PATCH /api/skills/{ref}`.
pub(crate) async fn change(
    State(app): State<App>,
    Authed(caller): Authed,
    Path(reference): Path<String>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    let asked: ChangeBody = body(&bytes?)?;
    let reference = reference.parse::<SkillRef>()?;
    let changed = app.host.registry.change(&caller, &reference, |skill| {
        skill.enabled = asked.enabled.unwrap_or(skill.enabled);
        skill.mode = asked.mode.unwrap_or(skill.mode);
        if let Some(tags) = asked.tags {
            skill.tags = tags;
        }
    });
    Ok(Json(wire::skill(&changed.await?.skill)))
}

/// Deletes a version: `DELETE /api/skills/{ref}`.
pub(crate) async fn delete(
    State(app): State<App>,
    Authed(caller): Authed,
    Path(reference): Path<String>,
) -> Result<StatusCode, Problem> {
    app.host.registry.delete(&caller, &reference.parse::<SkillRef>()?).await?;
    Ok(StatusCode::NO_CONTENT)
}
