//! What every reply says to a browser: show nothing of it, run nothing of it, keep nothing of it.

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue};

/// Set unless the handler has said something of its own.
const EVERYWHERE: [(HeaderName, HeaderValue); 3] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// Adds what is not there.
pub(super) fn complete(headers: &mut HeaderMap) {
    for (name, value) in EVERYWHERE {
        headers.entry(name).or_insert(value);
    }
}
