//! The Model Context Protocol: every function that a key may run is a tool.
//!
//! `rmcp` speaks the protocol, all of its revisions at one endpoint. What stands here is what
//! it cannot know: who asks (`call`), what there is (`catalogue`), how a run becomes a
//! result (`outcome`), and how long anything may stay open (`sessions`, `watched`).
//! `face::http::mcp` is the way in.

mod call;
mod catalogue;
mod changes;
mod endpoint;
mod manage;
mod outcome;
mod server;
mod sessions;
mod sites;
mod watched;

pub(crate) use self::endpoint::{Endpoint, Incoming};
pub(crate) use self::sites::Sites;
