//! Which routes take a query. To the others every parameter is unknown, and is refused as an
//! unknown one is elsewhere: who sends it relies on it.

use std::collections::HashSet;

use axum::extract::{MatchedPath, Query};
use axum::http::Method;
use axum::http::request::Parts;
use serde::Deserialize;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, RefOr};

use super::problem::Problem;

/// The routes that take a query, as the document has them: by method and path.
pub(super) struct Queries(HashSet<(Method, String)>);

/// No parameters at all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Queries {
    /// The routes of this document that take a query.
    pub(super) fn of(api: &OpenApi) -> Self {
        let takes_query = |operation: &Operation| {
            let mut parameters = operation.parameters.iter().flatten();
            parameters.any(|one| matches!(one, RefOr::T(one) if one.parameter_in == ParameterIn::Query))
        };
        let taking = api.paths.paths.iter().flat_map(|(path, item)| {
            let operations = [
                (Method::GET, &item.get),
                (Method::PUT, &item.put),
                (Method::POST, &item.post),
                (Method::DELETE, &item.delete),
                (Method::PATCH, &item.patch),
            ];
            let taking = operations.into_iter().filter(|(_, operation)| operation.as_ref().is_some_and(takes_query));
            taking.map(|(method, _)| (method, path.clone())).collect::<Vec<_>>()
        });
        Self(taking.collect())
    }

    /// Refuses a query where the route takes none.
    ///
    /// # Errors
    ///
    /// `malformed`, naming the parameter.
    pub(super) fn require_none(&self, parts: &Parts) -> Result<(), Problem> {
        if parts.uri.query().is_none() {
            return Ok(());
        }
        // What answers GET answers HEAD.
        let method = if parts.method == Method::HEAD { Method::GET } else { parts.method.clone() };
        let route = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned());
        if route.is_some_and(|route| self.0.contains(&(method, route))) {
            return Ok(());
        }
        let Query(Nothing {}) = Query::try_from_uri(&parts.uri)?;
        Ok(())
    }
}
