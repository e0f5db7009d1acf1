//! What a run was granted beyond itself, as its sandbox may use it.

use std::collections::BTreeMap;
use std::fmt::Debug;

/// What the executor lends to a run whose skill was granted something. A run without one has
/// none of it.
pub trait Powers: Debug + Send + Sync {
    /// Values for `wasi:config/store` (`grants.config`).
    fn config(&self) -> &BTreeMap<String, String>;

    /// Environment variables (`grants.env`).
    fn env(&self) -> &BTreeMap<String, String>;
}
