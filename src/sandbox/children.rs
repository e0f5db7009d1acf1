//! Other skills that a run may call.

use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;

use crate::model::{Fuel, RunError};

use super::BoxFuture;

/// How deep calls may go below the run that a request started.
pub const MAX_CALL_DEPTH: u32 = 8;

/// What a guest wants another skill to do.
#[derive(Clone, Debug)]
pub struct ChildCall {
    /// The skill, as the manifest names it, maybe with `#function`.
    pub skill: String,
    /// The arguments as JSON text.
    pub args: String,
    /// Fuel that the caller has left.
    pub fuel: Fuel,
    /// When the caller is ended.
    pub deadline: Instant,
}

/// What came of it.
#[derive(Debug)]
pub struct ChildReply {
    /// The output, or why there is none; `denied` where the skill was not called at all because
    /// something does not allow it.
    pub outcome: Result<Box<RawValue>, RunError>,
    /// Fuel that it used, with what it called in turn.
    pub fuel: u64,
    /// What would have allowed it, where that is what was missing: a grant, and the command that
    /// gives it.
    pub missing: Option<(String, String)>,
}

/// The skills that were granted to a run (`grants.skills`). The executor runs them.
pub trait Children: Send + Sync {
    /// Runs one of them to its end, or to the caller's deadline. Dropping the future cancels it.
    fn call(self: Arc<Self>, call: ChildCall) -> BoxFuture<'static, ChildReply>;
}
