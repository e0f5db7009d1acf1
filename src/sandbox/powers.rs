//! What a run was granted beyond itself, as its sandbox may use it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use super::{Children, KeyValue};

/// What the executor lends to a run whose skill was granted something. A run without one has
/// none of it.
pub trait Powers: Debug + Send + Sync {
    /// Values for `wasi:config/store` (`grants.config`).
    fn config(&self) -> &BTreeMap<String, String>;

    /// Environment variables (`grants.env`).
    fn env(&self) -> &BTreeMap<String, String>;

    /// What the skill keeps (`grants.kv`).
    fn keyvalue(&self) -> Option<Arc<dyn KeyValue>>;

    /// Which skills it may call (`grants.skills`).
    fn children(&self) -> Option<Arc<dyn Children>>;
}
