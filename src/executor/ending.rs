//! Ending many executions at once, whatever state they are in.

use std::time::Duration;

use crate::model::{Error, ExecutionId};

use super::Executor;

/// How long to wait for the end of each.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

impl Executor {
    /// Cancels executions, and waits for their ends for a while.
    ///
    /// # Errors
    ///
    /// As the store gives them.
    pub(crate) async fn end_all(&self, ids: &[ExecutionId]) -> Result<(), Error> {
        for id in ids {
            if !self.live.cancel(*id) {
                self.cancel_left(*id).await?;
            }
        }
        for id in ids {
            // Where it takes longer, who asks again finds it.
            let _ = tokio::time::timeout(LONGEST_WAIT, self.live.ended(*id)).await;
        }
        Ok(())
    }
}
