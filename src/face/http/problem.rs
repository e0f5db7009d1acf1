//! Errors as `application/problem+json` (RFC 9457).

use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::model::{Code, Error};

/// An error on its way to the client.
#[derive(Debug)]
pub(crate) struct Problem(pub(crate) Error);

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
                    StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
                    StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
                    StatusCode::INTERNAL_SERVER_ERROR => Code::Internal,
                    _ => Code::Malformed,
                };
                Self(Error::new(code, crate::model::plain(&rejection.body_text(), 500)))
            }
        })*
    };
}

rejections!(BytesRejection, JsonRejection, PathRejection, QueryRejection);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let error = self.0;
        let row = error.code.row();
        if error.source.is_some() {
            tracing::error!("A request failed: {error:?}");
        }
        let status = StatusCode::from_u16(row.http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut body = json!({
            "type": format!("/problems/{}", row.name),
            "title": status.canonical_reason(),
            "status": row.http,
            "code": row.name,
            "detail": error.detail,
        });
        if !error.fields.is_empty() {
            let fields = error.fields.iter().map(|field| json!({"pointer": field.pointer, "detail": field.detail}));
            body["errors"] = Value::Array(fields.collect());
        }
        let mut response = (status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = error.retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if error.code == Code::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
