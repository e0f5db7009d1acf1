//! Why a request did not bring an answer.

use std::error::Error as _;
use std::fmt;
use std::net::IpAddr;

use crate::model::{Layer, SecretName};

/// Why a request did not bring an answer, or its body broke off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The URL or method is refused whatever is granted. The text follows "the request".
    Unsafe(&'static str),
    /// A layer has no rule for it.
    Denied(Layer),
    /// The budget of the key that calls is used up.
    UsedUp,
    /// It has a header of its own where the guard puts this secret.
    OwnHeader(SecretName),
    /// The host stands for an address that is not of the public internet. The address is for
    /// the log: who asked would learn from it how the inside looks.
    Prohibited(IpAddr),
    /// The name has no address.
    NoAddress,
    /// The look-up took too long.
    LookupTimeout,
    /// Too many connections of this owner, or of all, are in use.
    TooManyConnections,
    /// Nobody answered at the address.
    Unreachable,
    /// The connection took too long.
    ConnectTimeout,
    /// The certificate is not one that is trusted for this host.
    Certificate,
    /// The other side does not speak TLS as we do.
    Tls,
    /// The request's body is longer than this many bytes, or broke off.
    RequestBody(u64),
    /// Status line and header fields are too many or too long.
    ResponseHead(u32),
    /// The body is longer than this many bytes.
    ResponseBody(u64),
    /// Nothing came for as long as who asked wanted to wait.
    ReadTimeout,
    /// The deadline of the whole request passed.
    Late,
    /// The connection was closed before all was there.
    Incomplete,
    /// What came is not HTTP/1.1.
    Protocol,
    /// The body came compressed or coded, and a secret in it could not be seen.
    Coded,
}

impl Failure {
    /// What an error of the HTTP library means. `most_head` bytes may a head have, and
    /// `most_body` a request's body.
    pub(super) fn of(error: &hyper::Error, most_head: u32, most_body: u64) -> Self {
        if error.is_parse_too_large() {
            return Self::ResponseHead(most_head);
        }
        if error.is_user() || error.is_body_write_aborted() {
            return Self::RequestBody(most_body);
        }
        let io = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
        if error.is_incomplete_message() || error.is_closed() || error.is_canceled() || io.is_some() {
            return Self::Incomplete;
        }
        Self::Protocol
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsafe(why) => write!(f, "the request {why}"),
            Self::Denied(Layer::Manifest) => f.write_str("the manifest of the skill does not ask for it"),
            Self::Denied(Layer::Registrar) => f.write_str("the key that registered the skill may not grant it"),
            Self::Denied(Layer::Parent) => f.write_str("the key that registered a calling skill may not grant it"),
            Self::Denied(Layer::Caller) => f.write_str("the key that calls may not grant it"),
            Self::Denied(Layer::Request) => f.write_str("the run was asked for without network"),
            Self::UsedUp => f.write_str("the key's egress budget for today is used up"),
            Self::OwnHeader(name) => write!(f, "the request has a header of its own where the secret {name} goes"),
            Self::Prohibited(_) => f.write_str("the host is not on the public internet"),
            Self::NoAddress => f.write_str("the host name has no address"),
            Self::LookupTimeout => f.write_str("the look-up of the host name took too long"),
            Self::TooManyConnections => f.write_str("too many connections are in use"),
            Self::Unreachable => f.write_str("the host cannot be reached"),
            Self::ConnectTimeout => f.write_str("the connection took too long"),
            Self::Certificate => f.write_str("the certificate is not trusted for this host"),
            Self::Tls => f.write_str("the TLS handshake failed"),
            Self::RequestBody(most) => write!(f, "the request's body has more than {most} bytes, or broke off"),
            Self::ResponseHead(most) => write!(f, "the head of the response has more than {most} bytes"),
            Self::ResponseBody(most) => write!(f, "the response has more than {most} bytes"),
            Self::ReadTimeout => f.write_str("nothing came for too long"),
            Self::Late => f.write_str("the deadline passed"),
            Self::Incomplete => f.write_str("the connection was closed before all was there"),
            Self::Protocol => f.write_str("the other side does not speak HTTP/1.1"),
            Self::Coded => f.write_str("the answer to a request with a secret came compressed or coded"),
        }
    }
}

impl std::error::Error for Failure {}
