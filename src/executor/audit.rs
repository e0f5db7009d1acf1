//! When runs are written down.

use std::sync::Arc;

use crate::model::{Digest, Error, Execution, redacted_copy};
use crate::store::{ArgsRecord, FinishedExecution, Store};

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
    /// Writes down that a run begins.
    pub(super) async fn open(
        self,
        store: &Store,
        execution: &Arc<Execution>,
        args: &Arc<ArgsRecord>,
    ) -> Result<(), Error> {
        match self {
            Self::Full => store.open_execution(Arc::clone(execution), Arc::clone(args)).await,
            Self::AtEnd | Self::Off => Ok(()),
        }
    }

    /// Writes down how a run ended.
    pub(super) async fn close(
        self,
        store: &Store,
        execution: &Arc<Execution>,
        args: Arc<ArgsRecord>,
    ) -> Result<(), Error> {
        match self {
            Self::Off => Ok(()),
            Self::Full | Self::AtEnd => super::close::close(store, finished(execution, args)).await,
        }
    }
}

/// The record of a run that has ended.
fn finished(execution: &Arc<Execution>, args: Arc<ArgsRecord>) -> FinishedExecution {
    let output = execution.output.as_ref().map(|output| output.get());
    FinishedExecution {
        output_digest: output.map(|text| Digest::of(text.as_bytes())),
        output_copy: output.map(|text| redacted_copy(text, COPY_BYTES)),
        execution: Arc::clone(execution),
        args,
    }
}
