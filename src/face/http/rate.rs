//! `RateLimit` and `RateLimit-Policy`, as structured fields (draft-ietf-httpapi-ratelimit-headers).

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

use crate::model::RateState;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// Says in an answer how many executions its key may start.
pub(super) fn tell(response: &mut Response, rate: Option<RateState>) {
    let Some(RateState { per_minute, left, next_s }) = rate else { return };
    let next = next_s.map_or_else(String::new, |seconds| format!(";t={seconds}"));
    let fields =
        [(POLICY, format!("\"executions\";q={per_minute};w=60")), (STATE, format!("\"executions\";r={left}{next}"))];
    for (name, text) in fields {
        if let Ok(value) = HeaderValue::try_from(text) {
            response.headers_mut().insert(name, value);
        }
    }
}
