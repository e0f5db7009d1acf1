//! The HTTP API.

mod auth;
mod drain;
mod executions;
mod keys;
mod metrics;
mod problem;
mod server;
mod skills;
mod staging;
mod tls;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;

use crate::host::Host;
use crate::model::{Code, Error, Limits};

use self::problem::Problem;

pub use self::server::{HttpOptions, Server};
pub use self::tls::Tls;

/// Room for what stands around the arguments in an execution request, in bytes.
const ENVELOPE: u64 = 64 << 10;

/// What every handler gets.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) host: Host,
    pub(crate) max_upload_bytes: u64,
}

/// All routes.
pub(crate) fn router(app: App) -> Router {
    let limit = usize::try_from(Limits::HOST_MAXIMUM.args_bytes + ENVELOPE).unwrap_or(usize::MAX);
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics::show))
        .route("/api/skills", get(skills::list).post(skills::upload))
        .route("/api/skills/skillssh", post(skills::register))
        .route("/api/skills/executions", get(executions::list).post(executions::create))
        .route("/api/skills/executions/{id}", get(executions::show))
        .route("/api/skills/{reference}", get(skills::show).patch(skills::change).delete(skills::delete))
        .route("/api/keys", get(keys::list).post(keys::create))
        .route("/api/keys/{id}", get(keys::show).delete(keys::revoke))
        .route("/api/keys/{id}/rotate", post(keys::rotate))
        .fallback(async || Problem(Error::not_found("path")))
        .method_not_allowed_fallback(async || {
            Problem(Error::new(Code::MethodNotAllowed, "this path does not take that method"))
        })
        .layer(DefaultBodyLimit::max(limit))
        .layer(from_fn(drain::drain_refused))
        .layer(CatchPanicLayer::custom(|_| {
            axum::response::IntoResponse::into_response(Problem(Error::internal("a handler panicked")))
        }))
        .layer(from_fn_with_state(Arc::clone(&app.host.telemetry), metrics::count))
        .with_state(app)
}

/// The routes of the listener for metrics alone.
fn metrics_router(app: App) -> Router {
    Router::new()
        .route("/metrics", get(metrics::show_without_key))
        .fallback(async || Problem(Error::not_found("path")))
        .with_state(app)
}

async fn ready(axum::extract::State(app): axum::extract::State<App>) -> Result<&'static str, Problem> {
    app.host.store.ping().await?;
    Ok("ready\n")
}
