//! Telling webhooks of the ends of runs: at least once, again and again for some hours, and then no more.
//!
//! Each webhook has a task of its own, which tells it a few things at one time: one that is slow holds up
//! nobody but itself.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::model::{Error, InterceptorId};
use crate::store::Delivery;

use super::Interceptors;
use super::told;
use super::webhook::{Message, Unheard, Webhook};

/// Most that a webhook is told at one time.
const AT_ONCE: u32 = 4;
/// How long to wait before the second attempt; four times as long before each other.
const FIRST_WAIT_MS: i64 = 2_000;
/// Longest time between two attempts.
const LONGEST_WAIT_MS: i64 = 4 * 60 * 60 * 1_000;
/// How often to look without having been woken.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How long to wait after the store has failed.
const AFTER_FAULT: Duration = Duration::from_secs(2);

/// The tasks of all webhooks that are told of ends.
pub(super) struct Outbox {
    max_attempts: u32,
    tasks: Mutex<HashMap<InterceptorId, Task>>,
}

struct Task {
    wake: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

impl Outbox {
    pub(super) fn new(max_attempts: u32) -> Self {
        Self { max_attempts, tasks: Mutex::default() }
    }

    /// Has a task for each of these, and no other.
    pub(super) fn serve(&self, all: &Arc<Interceptors>, told: HashSet<InterceptorId>) {
        let mut tasks = self.tasks.lock();
        tasks.retain(|id, _| told.contains(id));
        for id in told {
            let task = tasks.entry(id).or_insert_with(|| {
                let wake = Arc::new(Notify::new());
                let work = work(Arc::downgrade(all), id, Arc::clone(&wake));
                Task { wake, _task: AbortOnDropHandle::new(tokio::spawn(work)) }
            });
            task.wake.notify_one();
        }
    }

    pub(super) fn wake(&self, told: &[InterceptorId]) {
        let tasks = self.tasks.lock();
        told.iter().filter_map(|id| tasks.get(id)).for_each(|task| task.wake.notify_one());
    }

    pub(super) fn stop(&self) {
        self.tasks.lock().clear();
    }
}

async fn work(all: Weak<Interceptors>, id: InterceptorId, wake: Arc<Notify>) {
    loop {
        let wait = {
            let Some(all) = all.upgrade() else { return };
            let Some(hook) = all.hook(id) else { return };
            match all.tell_due(&hook).await {
                Ok(wait) => wait,
                Err(error) => {
                    tracing::warn!(interceptor.id = %id, "What a webhook is to be told cannot be read or noted: {error:?}");
                    AFTER_FAULT
                }
            }
        };
        tokio::select! {
            () = wake.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

impl Interceptors {
    /// Tells a webhook what it is to be told by now, and gives how long to wait for more.
    async fn tell_due(&self, hook: &Webhook) -> Result<Duration, Error> {
        loop {
            let now = self.post.clock.now_ms();
            let (due, next) = self.store.due_deliveries(hook.id, now, AT_ONCE).await?;
            if due.is_empty() {
                let wait = next.map_or(LOOK_EVERY, |at| Duration::from_millis((at - now).max(1).unsigned_abs()));
                return Ok(wait.min(LOOK_EVERY));
            }
            let mut telling: FuturesUnordered<_> = due.into_iter().map(|due| self.tell(hook, due)).collect();
            while let Some(told) = telling.next().await {
                told?;
            }
        }
    }

    async fn tell(&self, hook: &Webhook, due: Delivery) -> Result<(), Error> {
        let Some(execution) = self.store.execution(due.execution, None).await? else {
            return self.store.delivered(hook.id, due.execution).await;
        };
        let name = execution.skill_address.split('@').next().unwrap_or_default();
        let is_for = hook.skills.as_ref().is_none_or(|skills| skills.iter().any(|skill| skill.as_str() == name));
        if !is_for {
            return self.store.delivered(hook.id, due.execution).await;
        }
        let id = format!("msg_{}_{}", due.execution, hook.id);
        let heard = self.post.tell(hook, &Message { id, body: told::ended(&execution).into() }).await;
        let (problem, again) = match heard {
            Ok(()) => return self.store.delivered(hook.id, due.execution).await,
            Err(Unheard::Gone) => ("it answered that it is gone (410)".to_owned(), false),
            Err(Unheard::Later(problem)) => (problem, due.attempts.saturating_add(1) < self.outbox.max_attempts),
        };
        tracing::warn!(
            interceptor.id = %hook.id, execution.id = %due.execution, attempts = due.attempts + 1, problem,
            "A webhook was not told: {}", if again { "it is tried again" } else { "it is given up" },
        );
        let now = self.post.clock.now_ms();
        let again_at = again.then(|| now.saturating_add(wait_ms(due.attempts)));
        self.store.not_delivered((hook.id, due.execution), problem, (now, again_at)).await
    }
}

/// How long to wait after so many attempts before the last one, up to a fifth more by chance.
fn wait_ms(attempts: u32) -> i64 {
    let wait = FIRST_WAIT_MS.saturating_mul(4_i64.saturating_pow(attempts)).min(LONGEST_WAIT_MS);
    let chance = getrandom::u32().map_or(0, i64::from);
    wait + wait * chance / (5 * (i64::from(u32::MAX) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end_and_never_overflow() {
        for (attempts, least) in
            [(0, 2_000), (1, 8_000), (4, 512_000), (7, LONGEST_WAIT_MS), (u32::MAX, LONGEST_WAIT_MS)]
        {
            let wait = wait_ms(attempts);
            assert!((least..=least + least / 5).contains(&wait), "{attempts}: {wait}");
        }
    }
}
