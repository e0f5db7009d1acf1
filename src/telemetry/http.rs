//! Series about requests.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Methods that have a series of their own.
const METHODS: &[&str] = &["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS"];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    route: String,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failed {
    door: &'static str,
}

/// Series about requests.
pub struct HttpMetrics {
    requests: Family<Request, Counter>,
    unauthenticated: Family<Failed, Counter>,
}

impl HttpMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let (requests, unauthenticated) = (Family::default(), Family::default());
        registry.register("http_requests", "Requests that were answered", requests.clone());
        registry.register("authentication_failures", "Requests without a key that works", unauthenticated.clone());
        Self { requests, unauthenticated }
    }

    /// Counts a request. `route` is the template that it matched, not its path.
    pub fn answered(&self, route: Option<&str>, method: &str, status: u16) {
        let method = METHODS.iter().find(|known| **known == method).copied().unwrap_or("other");
        let request = Request { route: route.unwrap_or("none").to_owned(), method, status };
        self.requests.get_or_create(&request).inc();
    }

    /// Counts a request whose key is missing, unknown or no longer valid.
    pub fn unauthenticated(&self, door: &'static str) {
        self.unauthenticated.get_or_create(&Failed { door }).inc();
    }
}
