//! What is said when nothing could be fetched.

use http::StatusCode;

use crate::egress::{Failure, FetchError, Why};
use crate::model::{Code, Error};

/// Seconds after which a source may answer that does not now.
const LATER: u32 = 10;

/// Why nothing was fetched, for whoever asked. Only where it happened is told, without any query.
pub(super) fn refused(error: &FetchError) -> Error {
    let FetchError { why, target } = error;
    let origin = target.origin();
    match why {
        Why::Failure(Failure::Unsafe(why)) => at(Code::Malformed, format!("a request to {origin} {why}")),
        Why::Failure(Failure::Denied(_)) => at(
            Code::Denied,
            format!(
                "the network ceiling of this key does not allow {target}; \
                 `skillvisor keys create NAME --network {origin}` makes a key that may, \
                 or the operator lists the source in install.allowed_sources"
            ),
        ),
        Why::Failure(Failure::Prohibited(address)) => {
            tracing::warn!(egress.address = %address, egress.origin = origin, "A source leads to an address inside");
            at(
                Code::Denied,
                format!(
                    "{origin} is not on the public internet; the operator may open its network with egress.allow_cidrs"
                ),
            )
        }
        Why::Failure(Failure::ResponseBody(most)) => too_large(*most),
        Why::Failure(failure) => unavailable(format!("{origin}: {failure}")),
        Why::ClearText => at(
            Code::Denied,
            format!(
                "{origin} would be spoken to without TLS; use https://, or the operator names the host in \
                 registry.insecure_hosts"
            ),
        ),
        Why::Redirects => unavailable(format!("{origin}: there were too many redirects")),
        Why::Nowhere(why) => unavailable(format!("{origin}: the request {why}")),
    }
}

/// More than may come.
pub(super) fn too_large(most: u64) -> Error {
    at(Code::TooLarge, format!("the source has more than {most} bytes (for a component, setting upload.max_bytes)"))
}

/// What a status means that is none of success. `what` was asked for.
pub(super) fn answered(status: StatusCode, origin: &str, what: &str) -> Error {
    match status.as_u16() {
        401 | 403 => {
            at(Code::Denied, format!("{origin} does not give {what} to who we are; give its username and password"))
        }
        404 | 410 => at(Code::NotFound, format!("{origin} has no {what}")),
        status => unavailable(format!("{origin} answered {status} when asked for {what}")),
    }
}

/// The source does not do what it should, now.
pub(super) fn unavailable(detail: String) -> Error {
    at(Code::Unavailable, detail).retry_after(LATER)
}

/// A failure of the source.
pub(super) fn at(code: Code, detail: impl Into<String>) -> Error {
    Error::at(code, "/source", detail)
}
