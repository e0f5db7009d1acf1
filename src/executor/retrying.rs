//! Trying a run again (SPEC §5): for the failures that its skill names, within its one deadline,
//! and never after it was cancelled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::{Code, EarlierAttempt, RunError};
use crate::sandbox::SandboxReply;

use super::gathered::Gathered;
use super::running::{Parts, Running};

impl Parts {
    /// How long to wait before the next attempt, if there is to be one.
    pub(super) fn wait_for_next(&mut self, reply: &SandboxReply) -> Option<Duration> {
        let Err(error) = &reply.outcome else { return None };
        let retry = self.admitted.request.retry.over(&self.admitted.skill.skill.retry);
        if retry.max_retries == 0 {
            return None;
        }
        let wait = retry.wait(self.execution.attempts, error.code, chance())?;
        let deadline = self.admitted.started + Duration::from_millis(self.admitted.limits.timeout_ms);
        let may = !self.admitted.cancel.is_cancelled() && Instant::now() + wait < deadline;
        let share = self.admitted.share.as_mut().filter(|_| may);
        (may && share.is_none_or(|share| share.once_more(reply.usage.fuel))).then_some(wait)
    }

    /// Whether meanwhile the skill was neither deleted nor disabled, nor the key revoked.
    async fn may_still_run(&self) -> bool {
        if self.executor.access.live(&self.admitted.caller.key.id).is_none() {
            return false;
        }
        let registry = &self.executor.registry;
        let deadline = self.admitted.started + Duration::from_millis(self.admitted.limits.timeout_ms);
        match registry.pinned(self.admitted.skill.skill.id) {
            Some(skill) => registry.runnable(skill, deadline).await.is_ok(),
            None => false,
        }
    }

    /// Keeps what an attempt came to that another one follows.
    fn note(&mut self, reply: &SandboxReply) {
        let Err(error) = &reply.outcome else { return };
        let execution = Arc::make_mut(&mut self.execution);
        execution.earlier.push(EarlierAttempt {
            attempt: execution.attempts,
            code: error.code.as_str().to_owned(),
            message: error.message.clone(),
            fuel: reply.usage.fuel,
        });
        self.before = self.before.and(reply.usage);
    }
}

impl Running {
    /// Makes the next attempt after `wait`.
    pub(super) fn again(mut self, wait: Duration, reply: SandboxReply) {
        let Some(parts) = self.parts() else { return };
        let (home, cancel) = (parts.executor.home.clone(), parts.admitted.cancel.clone());
        home.spawn(async move {
            let cancelled = tokio::select! {
                () = tokio::time::sleep(wait) => false,
                () = cancel.cancelled() => true,
            };
            if cancelled {
                let error = RunError::new(Code::Cancelled, "cancelled between two attempts");
                return self.end(Ok(SandboxReply::without_run(error)));
            }
            let Some(parts) = self.parts() else { return };
            if !parts.may_still_run().await {
                parts.admitted.request.retry.max_retries = Some(0);
                return self.end(Ok(reply));
            }
            parts.note(&reply);
            Arc::make_mut(&mut parts.execution).attempts += 1;
            let gathered = Gathered::of(&parts.executor, &parts.admitted).await;
            let ready = parts.ready(gathered);
            self.run(ready);
        });
    }
}

/// Anything from 0 to 1; 0 where the system has no chance to give.
fn chance() -> f64 {
    getrandom::u32().map_or(0.0, |bits| f64::from(bits) / f64::from(u32::MAX))
}
