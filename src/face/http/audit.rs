//! `/api/audit`: the whole audit, for who is to check it.

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::auth::Authed;
use super::headers::attachment;
use super::problem::Problem;

/// From when on.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// From the last checkpoint before this time on; from the first record that is kept if nothing is said.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
}

/// Exports the audit
///
/// Lines of JSON: records, each with its hash and what it commits to, and signed checkpoints; the last line is
/// signed too, so that nothing can be cut off. `skillvisor audit verify` checks it. Needs the scope `admin`.
#[utoipa::path(
    get, path = "/api/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, description = "The records", content_type = "application/x-ndjson", body = String)),
)]
pub(crate) async fn export(
    State(app): State<App>,
    Authed(caller): Authed,
    query: Result<Query<AuditQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    caller.key.require(crate::model::Scope::Admin)?;
    let since = query?.0.since.map(Timestamp::as_millisecond);
    let export = app.host.export_audit(&caller, since).await?;
    let lines = stream::try_unfold(export, async |mut export| {
        let lines =
            export.next().await.inspect_err(|error| tracing::warn!("An export of the audit ended: {error:?}"))?;
        Ok::<_, crate::model::Error>(lines.map(|lines| (Bytes::from(lines), export)))
    });
    // What guests and callers said is in it.
    Ok((attachment("application/x-ndjson", "audit.jsonl"), Body::from_stream(Box::pin(lines))).into_response())
}

/// Gives the key that exports of the audit are checked with
///
/// Keep it apart from the host: who can write there could put another in its place.
#[utoipa::path(
    get, path = "/api/audit/public-key", tag = "audit",
    responses((status = 200, description = "Ed25519, as PEM", content_type = "application/x-pem-file", body = String)),
)]
pub(crate) async fn public_key(State(app): State<App>, _caller: Authed) -> Response {
    ([(CONTENT_TYPE, "application/x-pem-file")], app.host.audit_key().to_pem()).into_response()
}
