//! The HTTP API.

mod aliases;
mod approval;
mod archive;
mod audit;
mod auth;
mod bodies;
mod component;
mod connections;
mod dead_letters;
mod drain;
mod events;
mod executions;
mod files;
mod form;
mod headers;
mod health;
mod held;
mod install;
mod interceptors;
mod keys;
mod mcp;
mod metrics;
mod openapi;
mod opening;
mod owner;
mod owners;
mod pace;
mod problem;
mod problem_page;
mod queries;
mod rate;
mod read;
mod refusals;
mod secrets;
mod server;
mod shapes;
mod skill_md;
mod skills;
mod staging;
mod tls;
mod tools;
mod untaken;
mod usage;
mod versions;
mod wire;
mod wit;

use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::face::mcp::{Endpoint, Sites};
use crate::host::Host;
use crate::model::{Code, Error};
use crate::telemetry::Telemetry;

use self::held::Held;
use self::problem::Problem;
use self::queries::Queries;
use self::refusals::Refusals;

pub use self::connections::raise_descriptor_limit;
pub use self::pace::Pace;
pub use self::server::{HttpOptions, Server};
pub use self::tls::Tls;

/// What every handler gets.
#[derive(Clone)]
pub(crate) struct App(Arc<AppParts>);

/// The parts of an [`App`].
pub(crate) struct AppParts {
    pub(crate) host: Host,
    pub(crate) max_upload_bytes: u64,
    /// Requests without a valid key.
    refusals: Refusals,
    /// Bodies in memory.
    held: Held,
    /// Uploads that are under way.
    uploads: Held,
    /// Places to expand archives in.
    expanding: Semaphore,
    /// What answers at `/mcp`, and who may ask there.
    mcp: Endpoint,
    sites: Sites,
    /// Which routes take a query.
    queries: Queries,
    /// What `/openapi.json` shows.
    document: Bytes,
}

impl Deref for App {
    type Target = AppParts;

    fn deref(&self) -> &AppParts {
        &self.0
    }
}
impl App {
    pub(crate) fn new(host: Host, max_upload_bytes: u64, sites: Sites, stopping: CancellationToken) -> Self {
        let api = routes().into_openapi();
        let queries = Queries::of(&api);
        let document = openapi::document(api);
        Self(Arc::new(AppParts {
            mcp: Endpoint::new(host.clone(), stopping),
            sites,
            host,
            max_upload_bytes,
            refusals: Refusals::default(),
            held: Held::bodies(),
            uploads: Held::uploads(max_upload_bytes),
            expanding: Semaphore::new(archive::AT_ONCE),
            queries,
            document,
        }))
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
        .routes(routes!(install::install))
        .routes(routes!(tools::list, tools::find))
        .routes(routes!(tools::call))
        .routes(routes!(executions::list, executions::create))
        .routes(routes!(executions::show))
        .routes(routes!(executions::cancel))
        .routes(routes!(events::follow))
        .routes(routes!(skills::show, skills::change, skills::delete))
        .routes(routes!(versions::list))
        .routes(routes!(aliases::put, aliases::remove))
        .routes(routes!(approval::difference))
        .routes(routes!(approval::approve))
        .routes(routes!(component::download))
        .routes(routes!(files::list))
        .routes(routes!(files::list_root))
        .routes(routes!(files::show, files::put, files::delete))
        .routes(routes!(wit::wit))
        .routes(routes!(skill_md::skill_md))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::show, keys::revoke))
        .routes(routes!(keys::rotate))
        .routes(routes!(usage::show))
        .routes(routes!(audit::export))
        .routes(routes!(audit::public_key))
        .routes(routes!(owners::list))
        .routes(routes!(owners::erase))
        .routes(routes!(secrets::list))
        .routes(routes!(secrets::show, secrets::put, secrets::rotate, secrets::remove))
        .routes(routes!(interceptors::list, interceptors::create))
        .routes(routes!(interceptors::show, interceptors::change, interceptors::remove))
        .routes(routes!(interceptors::rotate))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::retry))
        .routes(routes!(mcp::send, mcp::listen, mcp::end))
}

/// The whole API.
pub(crate) fn router(app: App, pace: Pace) -> Router {
    let (routes, _) = routes().split_for_parts();
    let around = Around { pace, telemetry: Some(Arc::clone(&app.host.telemetry)) };
    guarded(routes.with_state(app), around)
}

/// The routes of the listener for metrics alone.
fn metrics_router(app: App, pace: Pace) -> Router {
    let routes = Router::new().route("/metrics", get(metrics::show_without_key)).with_state(app);
    guarded(routes, Around { pace, telemetry: None })
}

/// What answers those who speak without TLS where TLS is spoken.
fn clear_text_router(pace: Pace) -> Router {
    let refuse = async || {
        let detail = "this port speaks TLS, and what you sent could be read on its way: use a URL with https://";
        Problem(Error::new(Code::Malformed, detail))
    };
    let around = Around { pace, telemetry: None };
    Router::new().fallback(refuse).layer(middleware::from_fn_with_state(Arc::new(around), guard))
}

/// Routes with what holds for every request and every reply, also where there is no route.
fn guarded(routes: Router, around: Around) -> Router {
    routes
        .fallback(async || Problem(Error::not_found("path")))
        .method_not_allowed_fallback(async || {
            Problem(Error::new(
                Code::MethodNotAllowed,
                "this path does not take that method; `Allow` lists those it takes",
            ))
        })
        .layer(middleware::from_fn_with_state(Arc::new(around), guard))
}

/// What stands around every handler. It is one layer, because each costs every request a
/// few allocations.
struct Around {
    pace: Pace,
    /// Where requests are counted, if they are.
    telemetry: Option<Arc<Telemetry>>,
}

async fn guard(State(around): State<Arc<Around>>, request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    let method = request.method().clone();
    let is_http1 = request.version() < axum::http::Version::HTTP_2;
    let route = request.extensions().get::<MatchedPath>().cloned();
    let answer = AssertUnwindSafe(drain::drain_refused(around.pace.hold(request), next)).catch_unwind().await;
    let answer = answer.unwrap_or_else(|_| Problem(Error::internal("a handler panicked")).into_response());
    let mut response = problem::locate(answer, &uri);
    headers::complete(response.headers_mut());
    if !is_http1 {
        // HTTP/2 has no such header (RFC 9113, section 8.2.2).
        response.headers_mut().remove(axum::http::header::CONNECTION);
    }
    if let Some(telemetry) = &around.telemetry {
        let route = route.as_ref().map(MatchedPath::as_str);
        telemetry.http.answered(route, method.as_str(), response.status().as_u16());
    }
    response
}

#[cfg(test)]
mod tests;
