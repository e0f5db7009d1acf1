//! Skills that ask to keep their instances between calls (`"reuse": true`).

use crate::model::{Code, Error, Key};
use crate::sandbox::Inspection;

/// What is said of a skill that asks for what the key that registers it may not give.
pub(super) fn beyond(asked: bool, key: &Key) -> Option<&'static str> {
    let why = "reuse has no effect: the registering key does not have `ceilings.reuse`";
    (asked && !key.may_reuse()).then_some(why)
}

/// Refuses to keep instances of what ends with each call.
///
/// # Errors
///
/// `not_supported`.
pub(super) fn require_possible(asked: bool, inspection: &Inspection) -> Result<(), Error> {
    if !asked || inspection.is_reusable() {
        return Ok(());
    }
    let detail = "only components with functions can keep their instances between calls; programs, HTTP handlers and \
                  components with async functions are started anew for each: leave it out";
    Err(Error::at(Code::NotSupported, "/reuse", detail))
}
