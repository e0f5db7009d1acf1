//! When runs are written down.

use std::sync::Arc;

use crate::model::{Digest, Error, Execution, redacted_copy};
use crate::store::{FinishedExecution, NewExecution, Store};

use super::COPY_BYTES;

/// When runs are written down. Anything but the default breaks the promise that a run which
/// was answered, or was under way, is in the audit after a crash: it is for measuring only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audit {
    /// Before a run starts and when it has ended.
    #[default]
    Full,
    /// When it has ended.
    AtEnd,
    /// Not at all.
    Off,
}

impl Audit {
    /// Writes down that a run begins, or gives back what is to be written at its end.
    pub(super) async fn open(self, store: &Store, new: NewExecution) -> Result<Option<NewExecution>, Error> {
        match self {
            Self::Full => store.open_execution(new).await.map(|()| None),
            Self::AtEnd => Ok(Some(new)),
            Self::Off => Ok(None),
        }
    }

    /// Writes down how a run ended.
    pub(super) async fn close(
        self,
        store: &Store,
        unwritten: Option<NewExecution>,
        execution: &Arc<Execution>,
    ) -> Result<(), Error> {
        match (self, unwritten) {
            (Self::Off, _) => Ok(()),
            (_, Some(new)) => store.write_execution(new, finished(execution)).await,
            (_, None) => super::close::close(store, execution).await,
        }
    }
}

/// The record of a run that has ended.
pub(super) fn finished(execution: &Arc<Execution>) -> FinishedExecution {
    let output = execution.output.as_ref().map(|output| output.get());
    FinishedExecution {
        output_digest: output.map(|text| Digest::of(text.as_bytes())),
        output_copy: output.map(|text| redacted_copy(text, COPY_BYTES)),
        execution: Arc::clone(execution),
    }
}
