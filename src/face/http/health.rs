//! `/livez` and `/readyz`.

use axum::extract::State;

use super::App;
use super::problem::Problem;

/// Is the process there?
#[utoipa::path(
    get, path = "/livez", tag = "host", security(()),
    responses((status = 200, description = "It is", body = String, content_type = "text/plain")),
)]
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// Can it do its work?
#[utoipa::path(
    get, path = "/readyz", tag = "host", security(()),
    responses((status = 200, description = "It can", body = String, content_type = "text/plain")),
)]
pub(crate) async fn ready(State(app): State<App>) -> Result<&'static str, Problem> {
    app.host.store.ping().await?;
    Ok("ready\n")
}
