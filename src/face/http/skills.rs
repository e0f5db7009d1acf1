//! `/api/skills`: uploading, listing and changing skills.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, HttpBody};
use axum::extract::multipart::Field;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Query, Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::model::{Code, Error, Mode, OwnerId, Scope, SkillRef, SkillState, Tag, quotable};
use crate::registry::{Manifest, Place, Registered, RegisteredSkill, StagedComponent};

use super::App;
use super::archive;
use super::auth::Authed;
use super::form::Progress;
use super::held::Room;
use super::problem::Problem;
use super::read::{self, Segment};
use super::staging::stage;
use super::{bodies, shapes, wire};

/// Room for what stands around the component in a multipart upload, in bytes.
const FORM: u64 = (read::SMALL_BODY as u64) + (64 << 10);
/// Skills on one page when nothing is said, and at most.
pub(super) const PAGE: usize = 50;
pub(super) const MAX_PAGE: usize = 500;
/// Most bytes of skills on one page, but for one that is larger: schemas may be long.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// What an upload may say in its query. It goes before the manifest.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UploadQuery {
    /// The skill's name.
    name: Option<String>,
    /// Its version (SemVer 2.0).
    version: Option<String>,
    /// What it does.
    description: Option<String>,
    /// For whom it is registered; admin keys only.
    #[param(value_type = Option<String>)]
    owner: Option<OwnerId>,
}

/// Uploads a component
///
/// As it is, with name and version in the query; as a form together with its manifest, or with the
/// `SKILL.md` that has it; or as a zipped skill folder. Needs the scope `skills:write`. Answers once
/// the skill can run; after 5 s, or at once with `Prefer: respond-async`, it answers 202, and
/// `Location` says where to look for `state`. Where so much is being compiled that nobody has looked
/// into the component within a minute, it is 503 `overloaded` with `Retry-After`, and nothing is
/// registered.
#[utoipa::path(
    post, path = "/api/skills", tag = "skills",
    params(UploadQuery, ("prefer" = Option<String>, Header, description = "`respond-async` does not wait")),
    request_body(content((bodies::Component = "application/wasm"), (bodies::UploadForm = "multipart/form-data"),
        (bodies::Archive = "application/zip"))),
    responses(
        (status = 201, description = "A new skill", body = wire::SkillBody,
            headers(("location" = String, description = "Where the skill is"))),
        (status = 202, description = "A new skill that is being compiled", body = wire::SkillBody,
            headers(("location" = String, description = "Where the skill is"))),
        (status = 200, description = "It was there already, the same", body = wire::SkillBody,
            headers(("location" = String, description = "Where the skill is"))),
    ),
)]
pub(crate) async fn upload(
    State(app): State<App>,
    Authed(caller): Authed,
    query: Result<Query<UploadQuery>, QueryRejection>,
    request: Request,
) -> Result<Response, Problem> {
    caller.key.require(Scope::SkillsWrite)?;
    let Query(query) = query?;
    let now = prefers_async(request.headers());
    refuse_early(&app, request.body())?;
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let mut room = app.uploads.room(caller.owner());
    let (mut manifest, component) = match kind.as_str() {
        "application/wasm" => {
            (Manifest::default(), stage(&app, &mut room, request.into_body().into_data_stream()).await?)
        }
        "multipart/form-data" => parts(&app, &mut room, request).await?,
        "application/zip" => archive::folder(&app, &mut room, request.into_body()).await?,
        _ => {
            let detail =
                "send application/wasm, multipart/form-data with `manifest` and `component`, or application/zip";
            return Err(Error::new(Code::UnsupportedMediaType, detail).into());
        }
    };
    manifest.name = query.name.or(manifest.name);
    manifest.version = query.version.or(manifest.version);
    manifest.description = query.description.or(manifest.description);
    manifest.owner = query.owner.or(manifest.owner);
    let registered = app.host.registry.register(&caller, manifest, component, now).await?;
    Ok(registered_response(&app, &registered))
}

/// Refuses what is announced as too large before any of it is sent.
fn refuse_early(app: &App, body: &Body) -> Result<(), Error> {
    if body.size_hint().lower() <= app.max_upload_bytes + FORM {
        return Ok(());
    }
    let detail = format!("a component has at most {} bytes here (setting upload.max_bytes)", app.max_upload_bytes);
    Err(Error::new(Code::TooLarge, detail))
}

/// The two parts of a multipart upload, in any order.
async fn parts(app: &App, room: &mut Room, request: Request<Body>) -> Result<(Manifest, StagedComponent), Error> {
    let progress = Progress::default();
    let mut request = request.map(|body| progress.watch(body));
    // Forms alone are read by the framework, which needs to be told; `read` bounds the rest.
    let most = usize::try_from(app.max_upload_bytes.saturating_add(FORM)).unwrap_or(usize::MAX);
    DefaultBodyLimit::max(most).apply(&mut request);
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|error| Error::new(Code::Malformed, error.body_text()))?;
    let (mut manifest, mut component) = (None, None);
    while let Some(mut part) = form.next_field().await.map_err(|error| read::broken_off(&error))? {
        progress.made();
        match part.name() {
            Some(name @ ("manifest" | "skillMd")) if manifest.is_none() => {
                let is_manifest = name == "manifest";
                let text = text_of(&mut part, &progress).await?;
                let text = read::text(&text)?;
                let read = if is_manifest { Manifest::parse(text) } else { Manifest::of_skill_md(text.to_owned()) };
                manifest = Some(read?);
            }
            Some("component") if component.is_none() => {
                component = Some(stage(app, room, part.inspect(|_| progress.made())).await?);
            }
            other => {
                let name = quotable(other.unwrap_or(""));
                let detail =
                    format!("unexpected part {name:?}; send `manifest` or `skillMd`, and `component`, once each");
                return Err(Error::new(Code::Malformed, detail));
            }
        }
    }
    let component = component.ok_or_else(|| Error::new(Code::Malformed, "the part `component` is missing"))?;
    Ok((manifest.unwrap_or_default(), component))
}

/// All of a part that is a text.
async fn text_of(part: &mut Field<'_>, progress: &Progress) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    while let Some(chunk) = part.chunk().await.map_err(|error| read::broken_off(&error))? {
        progress.made();
        text.extend_from_slice(&chunk);
        if text.len() > read::SMALL_BODY {
            let detail = format!("the manifest has more than {} bytes", read::SMALL_BODY);
            return Err(Error::new(Code::TooLarge, detail));
        }
    }
    Ok(text)
}

/// Registers a skill by its manifest alone
///
/// Its handler is the digest of a component that this owner uploaded before. Needs the scope
/// `skills:write`. Waits as an upload does.
#[utoipa::path(
    post, path = "/api/skills/skillssh", tag = "skills", request_body = bodies::Manifest,
    params(("prefer" = Option<String>, Header, description = "`respond-async` does not wait")),
    responses(
        (status = 201, description = "A new skill", body = wire::SkillBody,
            headers(("location" = String, description = "Where the skill is"))),
        (status = 202, description = "A new skill that is being compiled", body = wire::SkillBody,
            headers(("location" = String, description = "Where the skill is"))),
        (status = 200, description = "It was there already, the same", body = wire::SkillBody,
            headers(("location" = String, description = "Where the skill is"))),
    ),
)]
pub(crate) async fn register(
    State(app): State<App>,
    Authed(caller): Authed,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Problem> {
    caller.key.require(Scope::SkillsWrite)?;
    let bytes = read::bytes(content, read::SMALL_BODY).await?;
    let manifest = Manifest::parse(read::text(&bytes)?)?;
    let registered = app.host.registry.register_manifest(&caller, manifest, prefers_async(&headers)).await?;
    Ok(registered_response(&app, &registered))
}

pub(super) fn prefers_async(headers: &HeaderMap) -> bool {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("respond-async"))
}

pub(super) fn registered_response(app: &App, registered: &Registered) -> Response {
    let skill = &registered.skill().skill;
    let status = match registered {
        _ if skill.state == SkillState::Compiling => StatusCode::ACCEPTED,
        Registered::Created(_) => StatusCode::CREATED,
        Registered::Unchanged(_) => StatusCode::OK,
    };
    (status, [(LOCATION, format!("/api/skills/{}", skill.id))], Json(shown(app, registered.skill()))).into_response()
}

/// A skill as it goes over the wire.
pub(super) fn shown(app: &App, found: &RegisteredSkill) -> Value {
    wire::skill(&found.skill, &app.host.registry.aliases(&found.skill))
}

/// What to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Skills with this text in name or description, in any case.
    q: Option<String>,
    /// Skills of this mode.
    #[param(value_type = Option<shapes::Mode>)]
    mode: Option<Mode>,
    /// Skills from this `sourceProvider`.
    source: Option<String>,
    /// Skills with this label.
    #[param(value_type = Option<String>)]
    tag: Option<Tag>,
    /// Skills of this owner.
    #[param(value_type = Option<String>)]
    owner: Option<OwnerId>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
    /// How many on a page: 1 to 500, 50 if nothing is said; fewer where they are large.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// Lists own and global skills
///
/// Needs the scope `skills:read`.
#[utoipa::path(
    get, path = "/api/skills", tag = "skills", params(ListQuery),
    responses((status = 200, description = "A page of skills", body = bodies::SkillPage)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Authed(caller): Authed,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, Problem> {
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
    if let Some(cursor) = query.cursor {
        let cursor: Place = cursor.parse()?;
        found.retain(|found| Place::of(&caller, found) > cursor);
    }
    let limit = query.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE);
    let page = page_text(&app, &found, limit);
    let next = (page.len() < found.len()).then(|| page.len().checked_sub(1)).flatten();
    let next = next.and_then(|last| found.get(last)).map(|last| Place::of(&caller, last).to_string());
    let next = Value::from(next);
    let text = format!("{{\"skills\":[{}],\"nextCursor\":{next},\"total\":{total}}}", page.join(","));
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

/// The skills of one page as JSON. One after the other: as values they take several times as much.
pub(super) fn page_text(app: &App, found: &[Arc<RegisteredSkill>], limit: usize) -> Vec<String> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for found in found.iter().take(limit) {
        let text = shown(app, found).to_string();
        bytes += text.len();
        if bytes > MAX_PAGE_BYTES && !page.is_empty() {
            break;
        }
        page.push(text);
    }
    page
}

/// Shows a skill
///
/// Needs the scope `skills:read`.
#[utoipa::path(
    get, path = "/api/skills/{reference}", tag = "skills",
    params(("reference" = String, Path, description = "Id, `name`, or `name@version-or-range`")),
    responses((status = 200, description = "The skill", body = wire::SkillBody)),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(reference): Segment,
) -> Result<Json<Value>, Problem> {
    let found = app.host.registry.get(&caller, &reference.parse::<SkillRef>()?)?;
    Ok(Json(shown(&app, &found)))
}

/// What to change; what is not given stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SkillChange)]
pub(super) struct ChangeBody {
    /// Whether it may be run.
    enabled: Option<bool>,
    /// Whether and how it is offered.
    #[schema(value_type = Option<shapes::Mode>)]
    mode: Option<Mode>,
    /// Its labels.
    #[schema(value_type = Option<Vec<String>>)]
    tags: Option<Vec<Tag>>,
}

/// Changes what may change in a skill
///
/// Needs the scope `skills:write`.
#[utoipa::path(
    patch, path = "/api/skills/{reference}", tag = "skills",
    params(("reference" = String, Path, description = "Id, `name`, or `name@version-or-range`")),
    request_body = ChangeBody,
    responses((status = 200, description = "The skill as it is now", body = wire::SkillBody)),
)]
pub(crate) async fn change(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(reference): Segment,
    content: Body,
) -> Result<Json<Value>, Problem> {
    let asked: ChangeBody = read::json(content).await?;
    let reference = reference.parse::<SkillRef>()?;
    let changed = app.host.registry.change(&caller, &reference, move |skill| {
        skill.enabled = asked.enabled.unwrap_or(skill.enabled);
        skill.mode = asked.mode.unwrap_or(skill.mode);
        if let Some(tags) = asked.tags {
            skill.tags = tags;
        }
    });
    let changed = changed.await?;
    Ok(Json(shown(&app, &changed)))
}

/// Deletes a version of a skill
///
/// Needs the scope `skills:write`.
#[utoipa::path(
    delete, path = "/api/skills/{reference}", tag = "skills",
    params(("reference" = String, Path, description = "Id, or an exact `name@version`")),
    responses((status = 204, description = "It is gone; its executions stay")),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(reference): Segment,
) -> Result<StatusCode, Problem> {
    app.host.registry.delete(&caller, &reference.parse::<SkillRef>()?).await?;
    Ok(StatusCode::NO_CONTENT)
}
