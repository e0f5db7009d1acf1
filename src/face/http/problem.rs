//! Errors as `application/problem+json` (RFC 9457).

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::model::{Code, Error};

use super::shapes;

/// Longest path that is repeated to the client, in bytes.
const MAX_INSTANCE: usize = 200;

/// An error on its way to the client.
#[derive(Debug)]
pub(crate) struct Problem(pub(crate) Error);

/// Why a request failed (RFC 9457).
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// A page about the code: `/problems/<code>`.
    #[serde(rename = "type")]
    #[schema(format = "uri-reference")]
    kind: String,
    /// The code in words; the same for every problem of this code.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What is wrong this time and, where possible, how to mend it.
    detail: String,
    /// The path of the request, without its query; cut if it is long.
    #[schema(format = "uri-reference")]
    instance: String,
    /// The stable name of the failure. Match on this.
    #[schema(schema_with = shapes::code)]
    code: &'static str,
    /// Each place in the input that is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    errors: Vec<Place>,
}

/// One wrong place in the input.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ProblemPlace)]
struct Place {
    /// JSON pointer (RFC 6901) to the place; empty for the whole input.
    pointer: String,
    /// What is wrong there.
    detail: String,
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

/// Gives a rejection of the framework the code that fits it.
macro_rules! rejections {
    ($($rejection:ty),*) => {
        $(impl From<$rejection> for Problem {
            fn from(rejection: $rejection) -> Self {
                let code = match rejection.status() {
                    StatusCode::INTERNAL_SERVER_ERROR => Code::Internal,
                    _ => Code::Malformed,
                };
                Self(Error::new(code, crate::model::plain(&rejection.body_text(), 500)))
            }
        })*
    };
}

rejections!(PathRejection, QueryRejection);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let error = self.0;
        if error.source.is_some() {
            tracing::error!("A request failed: {error:?}");
        }
        let row = error.code.row();
        let places = error.fields.into_iter().map(|field| Place { pointer: field.pointer, detail: field.detail });
        let body = ProblemBody {
            kind: format!("/problems/{}", row.name),
            title: title(row.name),
            status: row.http,
            detail: error.detail,
            instance: String::new(),
            code: row.name,
            errors: places.collect(),
        };
        let mut response = body.into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = error.retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        match error.code {
            Code::Unauthenticated => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            // What is still to come of the body would be read as the next request.
            Code::RequestTimeout => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

impl IntoResponse for ProblemBody {
    /// The body also goes along as it is, for [`locate`].
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let text = serde_json::to_string(&self).unwrap_or_default();
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))];
        let mut response = (status, kind, text).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes into a problem where it happened, which its handler does not know.
pub(super) fn locate(mut response: Response, uri: &Uri) -> Response {
    if let Some(mut problem) = response.extensions_mut().remove::<ProblemBody>() {
        problem.instance = instance(uri);
        let text = serde_json::to_string(&problem).unwrap_or_default();
        *response.body_mut() = text.into();
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    response
}

/// The path of a request as a URI reference that is safe to repeat: no query, nothing that
/// HTML or a terminal reads, never another host's, and bounded.
pub(super) fn instance(uri: &Uri) -> String {
    let mut safe = String::from("/");
    // Two slashes at the start would make the rest a host (RFC 3986, section 4.2).
    for byte in uri.path().trim_start_matches('/').bytes() {
        let piece = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'@' | b'%' | b':' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        };
        if safe.len() + piece.len() > MAX_INSTANCE {
            break;
        }
        safe.push_str(&piece);
    }
    safe
}

/// `digest_mismatch` is "Digest mismatch".
pub(super) fn title(code: &str) -> String {
    let mut words = code.replace('_', " ");
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_request_is_repeated_without_what_could_do_harm() {
        for (uri, safe) in [
            ("/api/skills/x@1.0.0?key=secret", "/api/skills/x@1.0.0"),
            ("//evil.example/x", "/evil.example/x"),
            ("/a\"{}|'b", "/a%22%7B%7D%7C%27b"),
            ("http://evil.example/path", "/path"),
            ("*", "/%2A"),
        ] {
            assert_eq!(instance(&uri.parse::<Uri>().unwrap()), safe);
        }
        let long = format!("/{}", "x".repeat(10_000)).parse::<Uri>().unwrap();
        assert_eq!(instance(&long).len(), MAX_INSTANCE);
    }
}
