//! When runs are written down.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::model::{Digest, Error, Execution, InterceptorId, redacted_copy};
use crate::store::{ArgsRecord, Claim, Claimed, FinishedExecution, Store};

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

/// What the end of a run has to do with, beside its record.
pub(super) struct Kept {
    /// Whether its key has a budget, for which it counts.
    pub(super) counts: bool,
    /// Whether its request may still be there, because it has not begun or would begin again after a crash.
    pub(super) again: bool,
    /// The webhooks that are to be told.
    pub(super) told: Vec<InterceptorId>,
}

impl Audit {
    /// Writes down that a run begins; `then` hears of it on the writer's thread, or here, and of
    /// the execution that has the claim, if there is one.
    pub(super) fn open(
        self,
        store: &Store,
        (execution, args): (Arc<Execution>, Arc<ArgsRecord>),
        claim: Option<Claim>,
        then: impl FnOnce(Result<Option<Claimed>, Error>) + Send + 'static,
    ) {
        match (self, claim) {
            (Self::Full, None) => store.open_execution(execution, args, |opened| then(opened.map(|()| None))),
            (Self::Full, Some(claim)) => store.open_claimed_execution(execution, args, claim, then),
            (Self::AtEnd | Self::Off, _) => then(Ok(None)),
        }
    }

    /// Writes down how a run ended; `then` hears of it on the writer's thread, or here.
    pub(super) fn close(
        self,
        store: &Store,
        runtime: &Handle,
        (execution, args, kept): (Arc<Execution>, Arc<ArgsRecord>, Kept),
        then: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        match self {
            Self::Off => then(Ok(())),
            Self::Full | Self::AtEnd => super::close::close(store, runtime, finished(execution, args, kept), then),
        }
    }
}

/// The record of a run that has ended.
fn finished(execution: Arc<Execution>, args: Arc<ArgsRecord>, kept: Kept) -> FinishedExecution {
    let output = execution.output.as_ref().map(|output| output.get());
    FinishedExecution {
        output_digest: output.map(|text| Digest::of(text.as_bytes())),
        output_copy: output.map(|text| redacted_copy(text, COPY_BYTES)),
        waited: kept.again,
        execution,
        args,
        counts: kept.counts,
        told: kept.told,
    }
}
