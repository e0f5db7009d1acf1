//! Ending an execution from outside.

use std::time::Duration;

use crate::model::{Caller, Code, Error, Execution, ExecutionId, Scope, Status};

use super::Executor;

/// How long a cancellation waits for the end. A guest ends within a tick, unless one
/// instruction keeps it for longer.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

impl Executor {
    /// Ends an execution, and gives it as it then stands: `cancelled`, or still running where
    /// its guest cannot be stopped at once.
    ///
    /// # Errors
    ///
    /// `insufficient_scope` without `skills:execute`; `not_found` as [`Executor::get`];
    /// `already_finished` if it has come to an end of its own.
    pub async fn cancel(&self, caller: &Caller, id: ExecutionId) -> Result<Execution, Error> {
        caller.key.require(Scope::SkillsExecute)?;
        let seen = self.get(caller, id).await?;
        if !seen.status.is_final() {
            if !self.live.cancel(id) && seen.status == Status::Pending {
                self.cancel_left(id).await?;
            }
            // Where it takes longer, what is told is that it still runs.
            let _ = tokio::time::timeout(LONGEST_WAIT, self.live.ended(id)).await;
        }
        let stands = self.get(caller, id).await?;
        if seen.status.is_final() || (stands.status.is_final() && stands.status != Status::Cancelled) {
            let detail = format!("the execution has ended: {}", stands.status.as_str());
            return Err(Error::new(Code::AlreadyFinished, detail));
        }
        Ok(stands)
    }
}
