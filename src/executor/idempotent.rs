//! Requests that may come twice and run once (SPEC §5).

use std::sync::Arc;
use std::time::Duration;

use crate::model::{Caller, Code, Digest, Error, Execution, ExecutionRequest, Idempotency, Scope};
use crate::store::{Claim, Claimed};

use super::Executor;
use super::running::Ended;

/// For how long a request is known again.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// What a request that may come twice has become.
#[derive(Clone, Debug)]
pub struct Once {
    /// The run, ended; or as it stands, where it could not be awaited.
    pub execution: Execution,
    /// Whether an earlier request began it.
    pub replayed: bool,
}

impl Executor {
    /// Carries out one request, or gives what the same key's same request before it became, and
    /// waits for its end; for 24 hours, also across a restart. The run goes on when the
    /// caller leaves: who comes again is to find it.
    ///
    /// # Errors
    ///
    /// As [`Executor::execute`], of which nothing is remembered; `idempotency_mismatch` if the
    /// word was used for another request.
    pub async fn execute_once(
        self: &Arc<Self>,
        caller: Caller,
        request: ExecutionRequest,
        idempotency: Idempotency,
    ) -> Result<Once, Error> {
        caller.key.require(Scope::SkillsExecute)?;
        let asked = idempotency.request;
        let claim = self.claim(idempotency.clone());
        let first = self.store.claimed(caller.key.id.clone(), idempotency, claim.since).await?;
        if let Some(first) = first {
            return self.replay(&caller, first, asked).await;
        }
        let again = caller.clone();
        let admitted = self.admitted(caller, request).await?;
        match self.begin(admitted, Some(claim)).await? {
            Ended::Run(run) => Ok(Once { execution: run.into_execution(), replayed: false }),
            Ended::Known(first) => self.replay(&again, first, asked).await,
        }
    }

    /// A claim that counts from 24 hours ago on.
    pub(super) fn claim(&self, idempotency: Idempotency) -> Claim {
        let since = self.clock.now_ms() - i64::try_from(REMEMBERED.as_millis()).unwrap_or(i64::MAX);
        Claim { idempotency, since, again: None }
    }

    async fn replay(&self, caller: &Caller, first: Claimed, asked: Digest) -> Result<Once, Error> {
        // What is another request's is not awaited.
        if first.request == asked {
            self.live.ended(first.execution).await;
        }
        self.known(caller, first, asked).await
    }

    /// What an earlier request became, as it stands.
    pub(super) async fn known(&self, caller: &Caller, first: Claimed, asked: Digest) -> Result<Once, Error> {
        if first.request != asked {
            let detail = "this Idempotency-Key was used with another request within 24 hours; use a new one";
            return Err(Error::new(Code::IdempotencyMismatch, detail));
        }
        let execution = self.get(caller, first.execution).await?;
        Ok(Once { execution, replayed: true })
    }
}
