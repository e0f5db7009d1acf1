//! `/openapi.json`: the API in OpenAPI 3.1, made from the routes themselves.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, License, OpenApi, OpenApiBuilder, Ref, RefOr, ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use super::App;
use super::problem::ProblemBody;

const ABOUT: &str = "\
A host for skills: WebAssembly components that are run in a sandbox under hard limits, with an audit of every run.

A run that happened answers 200 with its `status`, whatever became of it. A request that did not become a run \
answers a problem (RFC 9457) with a stable `code`. An object that has a key twice, an unknown field and a number that \
no double holds are refused as `malformed`.";

/// The name of the one way to say who asks.
const BEARER: &str = "key";

/// Describes this API
///
/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "host", security(()),
    responses((status = 200, description = "The document", body = serde_json::Value)),
)]
pub(crate) async fn describe(State(app): State<App>) -> Response {
    ([(CONTENT_TYPE, "application/json")], app.document.clone()).into_response()
}

/// What stands in the document before any route does.
pub(super) fn frame() -> OpenApi {
    let mut license = License::new("Apache-2.0");
    license.identifier = Some("Apache-2.0".into());
    let info = InfoBuilder::new()
        .title("Skillvisor")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .license(Some(license))
        .build();
    OpenApiBuilder::new().info(info).security(Some([SecurityRequirement::new(BEARER, [""; 0])])).build()
}

/// The finished document: what is the same for all routes is added to each.
pub(super) fn document(mut api: OpenApi) -> Bytes {
    let components = api.components.get_or_insert_with(Components::new);
    components.add_security_scheme(BEARER, SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    let mut schemas = Vec::new();
    ProblemBody::schemas(&mut schemas);
    schemas.push((ProblemBody::name().into_owned(), ProblemBody::schema()));
    components.schemas.extend(schemas);
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name(ProblemBody::name()))).build();
    let problem = ResponseBuilder::new()
        .description("Why the request was not carried out; `code` says it for programs")
        .content("application/problem+json", problem)
        .build();
    components.responses.insert("Problem".into(), RefOr::T(problem));
    // A path of several segments is a parameter like any other.
    let paths = std::mem::take(&mut api.paths.paths);
    api.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    for operation in api.paths.paths.values_mut().flat_map(operations) {
        let failure = RefOr::Ref(Ref::from_response_name("Problem"));
        operation.responses.responses.insert("default".into(), failure);
        // Handlers of two resources may have one name; clients are made from ids.
        let tag = operation.tags.iter().flatten().next().cloned().unwrap_or_default();
        operation.operation_id = operation.operation_id.take().map(|id| format!("{tag}_{id}"));
    }
    Bytes::from(api.to_json().unwrap_or_default())
}

/// The operations of one path.
fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch]
        .into_iter()
        .filter_map(Option::as_mut)
}
