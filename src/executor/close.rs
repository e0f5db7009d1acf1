//! The last word of an execution, which must not be lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::model::Error;
use crate::store::{FinishedExecution, Store, answered};

/// How long to wait before the closing row is tried again: first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// How often it is tried again: for about ten minutes, then the next start closes the row.
const TRIES: u32 = 45;

/// Writes down how an execution ended, and tells `then`. If that fails (a full disk), a task on
/// `runtime` goes on trying: the guest has ended, and its row must not say that it runs. What
/// the task does later, the caller does not learn.
pub(super) fn close(
    store: &Store,
    runtime: &Handle,
    finished: FinishedExecution,
    then: impl FnOnce(Result<(), Error>) + Send + 'static,
) {
    let finished = Arc::new(finished);
    let (again, runtime, kept) = (store.clone(), runtime.clone(), Arc::clone(&finished));
    store.close_execution(finished, move |closed| {
        if let Err(error) = &closed {
            tracing::error!(
                execution.id = %kept.execution.id, error.code = %error.code,
                "The end of an execution could not be written down; it is tried again: {error:?}",
            );
            runtime.spawn(go_on(again, kept));
        } else {
            // Before the caller wakes, who then has the execution alone and need not copy it.
            drop(kept);
        }
        then(closed);
    });
}

async fn go_on(store: Store, finished: Arc<FinishedExecution>) {
    let id = finished.execution.id;
    let mut wait = FIRST_WAIT;
    for _ in 0..TRIES {
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
        match answered(|then| store.close_execution(Arc::clone(&finished), then)).await {
            Ok(()) => {
                tracing::info!(execution.id = %id, "The end of an execution was written down after all");
                return;
            }
            // Nothing is written any more.
            Err(_) if store.is_closed() => break,
            Err(error) => tracing::debug!(execution.id = %id, "Still not written down: {error:?}"),
        }
    }
    tracing::error!(execution.id = %id, "The record of an execution stays open until the next start");
}
