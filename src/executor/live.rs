//! The executions that are under way in this process, so that others can end or await them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::model::ExecutionId;
use crate::sandbox::{Journal, Reader};

/// Everything that is under way.
#[derive(Default)]
pub(super) struct Live(Mutex<HashMap<ExecutionId, Entry>>);

struct Entry {
    cancel: CancellationToken,
    journal: Arc<Journal>,
    /// Dropped, which wakes who waits, when the record is closed.
    waiting: Vec<oneshot::Sender<()>>,
}

/// An execution that is under way, until this is dropped.
pub(super) struct Present {
    live: Arc<Live>,
    id: ExecutionId,
}

impl Live {
    /// Makes an execution known. `cancel` ends it, and `journal` has what it says.
    pub(super) fn enter(
        self: &Arc<Self>,
        id: ExecutionId,
        (cancel, journal): (CancellationToken, Arc<Journal>),
    ) -> Present {
        self.0.lock().insert(id, Entry { cancel, journal, waiting: Vec::new() });
        Present { live: Arc::clone(self), id }
    }

    /// Waits until the record of an execution is closed; at once where it is not under way.
    pub(super) async fn ended(&self, id: ExecutionId) {
        let waits = self.0.lock().get_mut(&id).map(|entry| {
            let (waiting, waits) = oneshot::channel();
            entry.waiting.push(waiting);
            waits
        });
        if let Some(waits) = waits {
            // An error is what the end looks like.
            let _ = waits.await;
        }
    }

    /// Follows an execution, if it is under way, from behind the event of number `after` on.
    pub(super) fn follow(&self, id: ExecutionId, after: u64) -> Option<Reader> {
        let journal = self.0.lock().get(&id).map(|entry| Arc::clone(&entry.journal));
        journal.map(|journal| journal.follow(after))
    }

    /// Ends an execution, soon; whether it is under way.
    pub(super) fn cancel(&self, id: ExecutionId) -> bool {
        let cancel = self.0.lock().get(&id).map(|entry| entry.cancel.clone());
        cancel.inspect(CancellationToken::cancel).is_some()
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        // Outside of the lock: who waits may be woken here.
        let gone = self.live.0.lock().remove(&self.id);
        if let Some(gone) = gone {
            gone.journal.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_for_an_execution_hears_of_its_end_and_who_comes_late_does_not_wait() {
        let (live, id, cancel) = (Arc::new(Live::default()), ExecutionId::generate(), CancellationToken::new());
        let present = live.enter(id, (cancel.clone(), Arc::default()));
        let mut waits = Box::pin(live.ended(id));
        assert!(futures_util::poll!(&mut waits).is_pending());
        live.cancel(id);
        assert!(cancel.is_cancelled() && futures_util::poll!(&mut waits).is_pending());
        drop(present);
        waits.await;
        live.ended(id).await;
        live.cancel(id);
    }
}
