//! Whether there is room for the result of one more run (`ceilings.storage.resultBytes`).

use crate::model::{Code, Error, Key};

use super::Executor;

impl Executor {
    /// Refuses a run whose key may start none, because so much of its owner's results is kept.
    ///
    /// What runs already goes on and keeps what it says: nothing that was answered, or will be, is
    /// taken away to make room. A key without this ceiling pays one branch.
    ///
    /// # Errors
    ///
    /// `storage_full`.
    pub(super) fn require_result_room(&self, key: &Key) -> Result<(), Error> {
        let Some(most) = key.max_storage().result_bytes else { return Ok(()) };
        let kept = self.store.kept_result_bytes(&key.owner);
        if kept < most {
            return Ok(());
        }
        let detail = format!(
            "{kept} bytes of this owner's results are kept, and its key may start nothing from {most} on \
             (ceilings.storage.resultBytes); the oldest go once retention.results has passed since their end"
        );
        Err(Error::new(Code::StorageFull, detail))
    }
}
