//! `/api/workspace`: the owner's files.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, HttpBody};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;
use utoipa::{IntoParams, ToSchema};

use crate::model::{Caller, Clock, Error, OwnerId};
use crate::workspace::{Entry, FileRef, Found, Kind, Page};

use super::App;
use super::auth::Authed;
use super::headers::attachment;
use super::owner::OwnerQuery;
use super::problem::Problem;
use super::read::{self, Segment};

/// Entries on one page when nothing is said, and at most.
const PAGE: usize = 100;
const MAX_PAGE: usize = 1000;
/// Bytes of a file that are read at a time.
const CHUNK: usize = 64 << 10;

/// Whose files, and which part of a directory.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FilesQuery {
    /// Whose files; admin keys only.
    #[param(value_type = Option<String>)]
    owner: Option<OwnerId>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
    /// How many entries on a page: 1 to 1000, 100 if nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// What to remove.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemoveQuery {
    /// Whose files; admin keys only.
    #[param(value_type = Option<String>)]
    owner: Option<OwnerId>,
    /// Whether a directory goes with all that is in it.
    #[serde(default)]
    #[param(value_type = Option<bool>)]
    recursive: bool,
}

/// A file or directory.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = File)]
pub(crate) struct FileBody {
    /// Its path below the workspace.
    path: String,
    /// `file`, `directory`, or `other`, which an operator left and nothing here opens.
    kind: &'static str,
    /// Its bytes, for a file.
    size: u64,
    /// When it was last written.
    #[schema(format = DateTime)]
    modified_at: String,
}

impl FileBody {
    fn new(above: &str, entry: &Entry) -> Self {
        let kind = match entry.kind {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Other => "other",
        };
        let path = if above.is_empty() { entry.name.clone() } else { format!("{above}/{}", entry.name) };
        Self { path, kind, size: entry.size, modified_at: Clock::rfc3339(entry.modified_at) }
    }
}

/// One page of a directory, by name.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FilePage {
    /// What is in it.
    entries: Vec<FileBody>,
    /// Where the next page begins; null on the last.
    #[schema(required = true)]
    next_cursor: Option<String>,
    /// How many there are on all pages.
    total: u64,
}

/// Lists the workspace
///
/// Needs the scope `files:read`.
#[utoipa::path(
    get, path = "/api/workspace", tag = "files", params(FilesQuery),
    responses((status = 200, description = "A page of the directory", body = FilePage)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Authed(caller): Authed,
    query: Result<Query<FilesQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    answer(&app, &caller, String::new(), query?.0).await
}

/// Lists the workspace
///
/// The same as without the slash.
#[utoipa::path(
    get, path = "/api/workspace/", tag = "files", params(FilesQuery),
    responses((status = 200, description = "A page of the directory", body = FilePage)),
)]
pub(crate) async fn list_root(
    State(app): State<App>,
    Authed(caller): Authed,
    query: Result<Query<FilesQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    answer(&app, &caller, String::new(), query?.0).await
}

/// Gives a file, or lists a directory
///
/// Needs the scope `files:read`. Files come as they are, to be saved and never shown.
#[utoipa::path(
    get, path = "/api/workspace/{*path}", tag = "files",
    params(("path" = String, Path, description = "Path below the workspace; may have slashes"), FilesQuery),
    responses((status = 200, description = "The file, or a page of the directory",
        content((Vec<u8> = "application/octet-stream"), (FilePage = "application/json")))),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(path): Segment,
    query: Result<Query<FilesQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    answer(&app, &caller, path, query?.0).await
}

/// Puts a file into the workspace
///
/// In place of what is there, as a whole or not at all. Directories above it are made. Needs the
/// scope `files:write`.
#[utoipa::path(
    put, path = "/api/workspace/{*path}", tag = "files",
    params(("path" = String, Path, description = "Path below the workspace; may have slashes"), OwnerQuery),
    request_body(content((Vec<u8> = "application/octet-stream"))),
    responses(
        (status = 201, description = "A new file", body = FileBody),
        (status = 200, description = "In place of another", body = FileBody),
    ),
)]
pub(crate) async fn put(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(path): Segment,
    query: Result<Query<OwnerQuery>, QueryRejection>,
    body: Body,
) -> Result<Response, Problem> {
    let at = FileRef { owner: query?.0.owner, path };
    let announced = body.size_hint().lower();
    let (mut incoming, path) = app.host.workspaces.receive(&caller, &at, announced).await?;
    let mut body = body.into_data_stream();
    while let Some(chunk) = body.next().await {
        incoming.add(&chunk.map_err(|error| read::broken_off(&error))?).await?;
    }
    let (entry, is_new) = incoming.finish(path).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(FileBody::new("", &entry))).into_response())
}

/// Removes a file or directory
///
/// Needs the scope `files:write`.
#[utoipa::path(
    delete, path = "/api/workspace/{*path}", tag = "files",
    params(("path" = String, Path, description = "Path below the workspace; may have slashes"), RemoveQuery),
    responses((status = 204, description = "It is gone")),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Authed(caller): Authed,
    Segment(path): Segment,
    query: Result<Query<RemoveQuery>, QueryRejection>,
) -> Result<StatusCode, Problem> {
    let RemoveQuery { owner, recursive } = query?.0;
    app.host.workspaces.remove(&caller, &FileRef { owner, path }, recursive).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn answer(app: &App, caller: &Caller, path: String, query: FilesQuery) -> Result<Response, Problem> {
    let page = Page { after: query.cursor, limit: query.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE) };
    let at = FileRef { owner: query.owner, path };
    match app.host.workspaces.get(caller, &at, page).await? {
        Found::Directory(listing) => {
            let above = at.path.trim_end_matches('/');
            let next = listing.entries.last().filter(|_| listing.more).map(|last| last.name.clone());
            let entries = listing.entries.iter().map(|entry| FileBody::new(above, entry)).collect();
            Ok(Json(FilePage { entries, next_cursor: next, total: listing.total }).into_response())
        }
        Found::File(file, length) => {
            // What is added meanwhile was not announced.
            let reader = tokio::fs::File::from_std(file.try_clone().map_err(Error::internal)?).take(length);
            // Counted as open for as long as it is sent.
            let bytes = ReaderStream::with_capacity(reader, CHUNK).map(move |chunk| {
                let _open = Arc::strong_count(&file);
                chunk
            });
            let name = at.path.rsplit('/').next().unwrap_or_default();
            let saved = attachment("application/octet-stream", name);
            Ok((saved, [(CONTENT_LENGTH, length.to_string())], Body::from_stream(bytes)).into_response())
        }
    }
}
