//! The one way out: what the host fetches for somebody goes through here.
//!
//! A request is matched with its grants on the very text that will be sent, before any name
//! is looked up. The name is looked up once, every answer must be an address of the public
//! internet (or of a network that the operator allows), and only a checked address is
//! connected to. Guests see redirects and ask again; what the host fetches itself follows them,
//! each through the same checks (`fetch`). Secrets are put
//! into requests here, for their own origin only, and taken out of what comes back.
//!
//! Everything runs on the runtime the guard was made on, whoever asks: a connection outlives
//! the request that opened it. Connections are kept for their owner, and never cross to another.

mod address;
mod allowance;
mod body;
mod connection;
mod credential;
mod failure;
mod fetch;
mod guard;
mod outside;
mod pool;
mod post;
mod rule;
mod scrub;
mod scrubbed;
mod target;
mod tls;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;

pub use self::allowance::Allowance;
pub use self::credential::{Cleaner, Credential, Credentials, Place, Withheld};
pub use self::failure::Failure;
pub use self::fetch::{Ask, FetchError, Fetched, Fetcher, Why};
pub use self::guard::{Admitted, Body, EgressSettings, Errand, Guard, MAX_BODY, Meter};
pub use self::post::{Posted, Posting};
pub use self::rule::{NetworkGrant, covers};
pub use self::scrubbed::Answer;
pub use self::target::Target;

pub(crate) use self::tls::authorities;
