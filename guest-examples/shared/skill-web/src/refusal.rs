//! Why a skill says no.

use wasip2::http::types::ErrorCode;

/// A word of the skill's own and a sentence, as `skill-error` has them.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The word. Callers match on it.
    pub code: &'static str,
    /// The sentence.
    pub message: String,
}

impl Refusal {
    /// Says no.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// What the host says of a request.
    pub fn of(error: &ErrorCode) -> Self {
        use ErrorCode as E;
        let (code, why) = match error {
            E::HttpRequestDenied | E::DestinationIpProhibited => (
                "blocked",
                "this address may not be reached; the execution's denials say what would allow it",
            ),
            E::HttpRequestUriInvalid => ("invalid-url", "the URL is not one that can be asked for"),
            E::ConnectionTimeout
            | E::ConnectionReadTimeout
            | E::ConnectionWriteTimeout
            | E::HttpResponseTimeout => return Self::late(),
            E::DnsError(_) | E::DnsTimeout | E::DestinationNotFound => {
                ("network-error", "the host's name is not known")
            }
            other => {
                return Self::new("network-error", format!("the request failed: {other:?}"));
            }
        };
        Self::new(code, why)
    }

    /// What is said when there is no time left.
    pub fn late() -> Self {
        Self::new("timeout", "there was no whole answer in time (timeoutMs)")
    }
}
