//! The HTTP API.

mod auth;
mod bodies;
mod connections;
mod drain;
mod executions;
mod form;
mod headers;
mod health;
mod keys;
mod metrics;
mod openapi;
mod opening;
mod pace;
mod problem;
mod problem_page;
mod read;
mod refusals;
mod server;
mod shapes;
mod skills;
mod staging;
mod tls;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::host::Host;
use crate::model::{Code, Error};

use self::problem::Problem;
use self::refusals::Refusals;

pub use self::connections::raise_descriptor_limit;
pub use self::pace::Pace;
pub use self::server::{HttpOptions, Server};
pub use self::tls::Tls;

/// What every handler gets.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) host: Host,
    pub(crate) max_upload_bytes: u64,
    /// Requests without a valid key.
    refusals: Refusals,
    /// What `/openapi.json` shows.
    document: Bytes,
}

impl App {
    pub(crate) fn new(host: Host, max_upload_bytes: u64) -> Self {
        let document = openapi::document(routes().into_openapi());
        Self { host, max_upload_bytes, refusals: Refusals::default(), document }
    }
}

/// All routes, each with what the document says of it. A route that is added another way
/// is missing in the document, and a test fails.
fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::frame())
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(openapi::describe))
        .routes(routes!(problem_page::explain))
        .routes(routes!(metrics::show))
        .routes(routes!(skills::list, skills::upload))
        .routes(routes!(skills::register))
        .routes(routes!(executions::list, executions::create))
        .routes(routes!(executions::show))
        .routes(routes!(skills::show, skills::change, skills::delete))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::show, keys::revoke))
        .routes(routes!(keys::rotate))
}

/// The whole API.
pub(crate) fn router(app: App, pace: Pace) -> Router {
    // Forms alone are read by the framework, which needs to be told; `read` bounds the rest.
    let form = usize::try_from(app.max_upload_bytes.saturating_add(skills::FORM)).unwrap_or(usize::MAX);
    let (routes, _) = routes().split_for_parts();
    let telemetry = Arc::clone(&app.host.telemetry);
    let routes = routes.layer(DefaultBodyLimit::max(form)).with_state(app);
    guarded(routes, pace).layer(middleware::from_fn_with_state(telemetry, metrics::count))
}

/// The routes of the listener for metrics alone.
fn metrics_router(app: App, pace: Pace) -> Router {
    guarded(Router::new().route("/metrics", get(metrics::show_without_key)).with_state(app), pace)
}

/// Routes with what holds for every request and every reply, also where there is no route.
fn guarded(routes: Router, pace: Pace) -> Router {
    routes
        .fallback(async || Problem(Error::not_found("path")))
        .method_not_allowed_fallback(async || {
            Problem(Error::new(
                Code::MethodNotAllowed,
                "this path does not take that method; `Allow` lists those it takes",
            ))
        })
        .layer(CatchPanicLayer::custom(|_| Problem(Error::internal("a handler panicked")).into_response()))
        .layer(middleware::from_fn(move |request, next| around(pace, request, next)))
}

/// What is done around every handler.
async fn around(pace: Pace, request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    let is_http1 = request.version() < axum::http::Version::HTTP_2;
    let mut response = problem::locate(drain::drain_refused(pace.hold(request), next).await, &uri);
    headers::complete(response.headers_mut());
    if !is_http1 {
        // HTTP/2 has no such header (RFC 9113, section 8.2.2).
        response.headers_mut().remove(axum::http::header::CONNECTION);
    }
    response
}

#[cfg(test)]
mod tests;
