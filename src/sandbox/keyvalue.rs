//! The key-value store of a run's owner and skill, as its sandbox may use it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::model::Error;

use super::BoxFuture;

/// A value, and what tells it from every other that the key ever has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versioned {
    /// The value, if there is one.
    pub value: Option<Vec<u8>>,
    /// Its version; none where there is no value.
    pub version: Option<u64>,
}

/// Some keys, in the order in which they came to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPage {
    /// The keys.
    pub keys: Vec<String>,
    /// Where the next page begins, if there are more.
    pub next: Option<u64>,
}

/// What can be done with a store. Names of buckets and keys are as the guest gave them; what is
/// too long, or too much, is an error whose text the guest may read. All of a call happens, or
/// nothing. A future that is dropped may still happen.
///
/// # Errors
///
/// `invalid_args` for what is too long, `storage_full` for what is over a quota, and as the disk
/// gives them.
pub trait KeyValue: Send + Sync {
    /// The values of some keys.
    fn get(
        self: Arc<Self>,
        bucket: String,
        keys: Vec<String>,
    ) -> BoxFuture<'static, Result<Vec<Option<Vec<u8>>>, Error>>;

    /// Sets some keys.
    fn set(self: Arc<Self>, bucket: String, pairs: Vec<(String, Vec<u8>)>) -> BoxFuture<'static, Result<(), Error>>;

    /// Removes some keys, of which some may not be there.
    fn delete(self: Arc<Self>, bucket: String, keys: Vec<String>) -> BoxFuture<'static, Result<(), Error>>;

    /// Whether there is a value.
    fn exists(self: Arc<Self>, bucket: String, key: String) -> BoxFuture<'static, Result<bool, Error>>;

    /// Keys after a point of an earlier page.
    fn keys(self: Arc<Self>, bucket: String, after: u64) -> BoxFuture<'static, Result<KeyPage, Error>>;

    /// Adds to a number, which must stay in a range.
    fn add(
        self: Arc<Self>,
        bucket: String,
        key: String,
        change: (i128, RangeInclusive<i128>),
    ) -> BoxFuture<'static, Result<i128, Error>>;

    /// A value with its version.
    fn look(self: Arc<Self>, bucket: String, key: String) -> BoxFuture<'static, Result<Versioned, Error>>;

    /// Sets a key if it still has the version; says whether it had.
    fn swap(
        self: Arc<Self>,
        bucket: String,
        key: String,
        change: (Option<u64>, Vec<u8>),
    ) -> BoxFuture<'static, Result<bool, Error>>;
}
