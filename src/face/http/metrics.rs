//! `/metrics`.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::model::{Error, Scope};
use crate::telemetry::CONTENT_TYPE as OPENMETRICS;

use super::App;
use super::auth::Authed;
use super::problem::Problem;

/// Shows what was counted, as OpenMetrics
///
/// Needs an admin key, except on the listener of `metrics.listen`.
#[utoipa::path(
    get, path = "/metrics", tag = "host",
    responses((status = 200, description = "The metrics", body = String, content_type = "application/openmetrics-text")),
)]
pub(crate) async fn show(State(app): State<App>, Authed(caller): Authed) -> Result<Response, Problem> {
    caller.key.require(Scope::Admin)?;
    Ok(text(&app).await?)
}

/// Shows what was counted, on the listener that asks for no key.
pub(super) async fn show_without_key(State(app): State<App>) -> Result<Response, Problem> {
    Ok(text(&app).await?)
}

async fn text(app: &App) -> Result<Response, Error> {
    let text = app.host.metrics().await?;
    Ok(([(CONTENT_TYPE, OPENMETRICS)], text).into_response())
}
