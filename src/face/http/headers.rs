//! What every reply says to a browser: show nothing of it, run nothing of it, keep nothing of it.
//! What strangers wrote is to be saved, too.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS,
};
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

/// What goes with bytes that a guest or a caller supplied: they are saved under `name` and never
/// shown, and could do nothing where a browser shows them all the same (RFC 6266, RFC 8187).
pub(super) fn attachment(kind: &str, name: &str) -> [(HeaderName, String); 3] {
    let encoded: String = name
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    let disposition = if encoded == name {
        format!("attachment; filename=\"{name}\"")
    } else {
        format!("attachment; filename*=UTF-8''{encoded}")
    };
    [
        (CONTENT_TYPE, kind.to_owned()),
        (CONTENT_DISPOSITION, disposition),
        (CONTENT_SECURITY_POLICY, "sandbox".to_owned()),
    ]
}
