//! Runs of which nobody waits for the end (`mode: "async"`): written down before they are
//! accepted, and begun when their turn comes, also after a restart.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::model::{
    Caller, Code, EarlierAttempt, Error, Execution, ExecutionId, ExecutionRequest, Idempotency, Key, KeyId,
    LimitsPatch, RetryPatch, RunError, Scope, SkillRef, Status, StrictJson,
};
use crate::store::{ArgsRecord, Claim, Claimed, QueuedExecution, answered};

use super::admission::{Place, Turn};
use super::audit::Kept;
use super::budgets::Refused;
use super::children::Line;
use super::gathered::Gathered;
use super::idempotent::Once;
use super::live::Present;
use super::running::{self, Running};
use super::{Admitted, Audit, Executor, limits_for, log};

/// How long a skill may take to be ready again after a restart, before its runs are given up.
const LONGEST_READYING: Duration = Duration::from_secs(10 * 60);
/// How long to wait before the row of a run that begins is tried again: first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// How long to wait for others of its key that hold what is left of the day's fuel.
const FUEL_WAIT: Duration = Duration::from_millis(100);

/// A run that waits for its turn. Dropping it leaves its rows as they are, for the next start.
pub(super) struct Waiting {
    pub(super) executor: Arc<Executor>,
    pub(super) admitted: Admitted,
    pub(super) execution: Arc<Execution>,
    pub(super) args: Arc<ArgsRecord>,
    /// Others can end it, and know of its end; the host does not stop before.
    pub(super) present: (Present, TaskTrackerToken),
}

/// What of a request is not in the row of its execution, as JSON.
#[derive(Deserialize)]
struct Request {
    limits: LimitsPatch,
    retry: RetryPatch,
    offline: bool,
    read_only: bool,
    args: Box<RawValue>,
}

impl Executor {
    /// Accepts a request whose end nobody waits for: it runs when its turn comes, also after a
    /// restart. Its deadline begins with its run. With an [`Idempotency`], the same request of
    /// the same key gives the first one's execution as it stands.
    ///
    /// # Errors
    ///
    /// Why it is not accepted, as [`Executor::execute`] says, and then nothing of it is kept;
    /// `queue_full` or `overloaded` if too many wait; `idempotency_mismatch`.
    pub async fn submit(
        self: &Arc<Self>,
        caller: Caller,
        request: ExecutionRequest,
        idempotency: Option<Idempotency>,
    ) -> Result<Once, Error> {
        caller.key.require(Scope::SkillsExecute)?;
        let claim = idempotency.map(|idempotency| self.claim(idempotency));
        if let Some(Claim { idempotency, since, .. }) = &claim {
            let first = self.store.claimed(caller.key.id.clone(), idempotency.clone(), *since).await?;
            if let Some(first) = first {
                return self.known(&caller, first, idempotency.request).await;
            }
        }
        let (again, asked) = (caller.clone(), claim.as_ref().map(|claim| claim.idempotency.request));
        let door = caller.door;
        let queued = self.queue(caller, request, claim).await;
        match queued.inspect_err(|error| self.telemetry.executions.refused(error.code, door))? {
            Ok(execution) => Ok(Once { execution, replayed: false }),
            Err(first) => self.known(&again, first, asked.unwrap_or(first.request)).await,
        }
    }

    /// The execution, or the earlier one that has the claim.
    async fn queue(
        self: &Arc<Self>,
        caller: Caller,
        request: ExecutionRequest,
        claim: Option<Claim>,
    ) -> Result<Result<Execution, Claimed>, Error> {
        let admitted = self.resolved(caller, request).await?;
        let kept = kept(&admitted.request);
        // Its budgets are asked when it begins, which may be another day.
        self.rates.take(&admitted.caller.key, Instant::now())?;
        self.require_result_room(&admitted.caller.key)?;
        let turn = self.admission.queue(admitted.caller.owner(), kept.len() as u64)?;
        admitted.check(&*self.sandbox)?;
        let execution = Execution { status: Status::Pending, started_at: None, ..running::at_start(self, &admitted) };
        let waiting = self.waiting(admitted, Arc::new(execution), None);
        let queued = QueuedExecution {
            execution: Arc::clone(&waiting.execution),
            args: Arc::clone(&waiting.args),
            request: kept.into(),
        };
        let home = self.home.clone();
        answered(move |then| {
            self.store.queue_execution(queued, claim, move |queued| {
                then(queued.map(|first| match first {
                    Some(first) => Err(first),
                    None => {
                        let execution = Execution::clone(&waiting.execution);
                        // Here, so that it is begun also when its caller has left.
                        home.spawn(waiting.wait(turn));
                        Ok(execution)
                    }
                }));
            });
        })
        .await
    }

    fn waiting(
        self: &Arc<Self>,
        admitted: Admitted,
        execution: Arc<Execution>,
        args: Option<Arc<ArgsRecord>>,
    ) -> Waiting {
        let args = args.unwrap_or_else(|| Arc::new(running::args_record(&admitted)));
        let present = (self.live.enter(execution.id, admitted.known()), self.runs.token());
        Waiting { executor: Arc::clone(self), admitted, execution, args, present }
    }

    /// Lets everything wait again that waited when the host stopped, in its order, with the rights
    /// that its keys have now. Gives how many.
    ///
    /// # Errors
    ///
    /// As the store gives them.
    pub async fn queue_again(self: &Arc<Self>) -> Result<usize, Error> {
        let queued = self.store.queued_executions(None).await?;
        let count = queued.len();
        for QueuedExecution { execution, args, request } in queued {
            let execution = interrupted_before(execution);
            match self.admitted_again(&execution, &request) {
                Ok(admitted) => {
                    let turn = self.admission.queue_again(&execution.owner, request.len() as u64);
                    let waiting = self.waiting(admitted, execution, Some(args));
                    self.home.spawn(waiting.wait(turn));
                }
                Err(error) => self.close_unbegun((execution, args), failed(&error), None),
            }
        }
        Ok(count)
    }

    /// Ends a run that waits for another start of the host, if it does.
    pub(super) async fn cancel_left(&self, id: ExecutionId) -> Result<(), Error> {
        for QueuedExecution { execution, args, .. } in self.store.queued_executions(Some(id)).await? {
            let known = (CancellationToken::new(), Arc::default());
            let present = (self.live.enter(id, known), self.runs.token());
            self.close_unbegun((execution, args), cancelled(), Some(present));
        }
        Ok(())
    }

    fn admitted_again(&self, execution: &Execution, request: &str) -> Result<Admitted, Error> {
        let Request { limits, retry, offline, read_only, args } =
            serde_json::from_str(request).map_err(Error::internal)?;
        let caller = Caller { key: self.live_key(&execution.key_id)?, door: execution.door };
        let skill = self.registry.pinned(execution.skill).ok_or_else(|| Error::not_found("skill"))?;
        let function = skill.function(Some(&execution.function).filter(|name| !name.is_empty()).map(|name| &**name))?;
        let request = ExecutionRequest {
            session_id: execution.session_id.clone(),
            limits,
            retry,
            offline,
            read_only,
            ..ExecutionRequest::new(SkillRef::Id(execution.skill), StrictJson::from_raw(args)?)
        };
        Ok(Admitted {
            limits: limits_for(&caller, &request, &skill.skill)?,
            caller,
            request,
            skill,
            function,
            started: Instant::now(),
            queue_ms: 0.0,
            cancel: self.stopping.child_token(),
            line: Line::default(),
            share: None,
            journal: Arc::default(),
            place: None,
        })
    }

    fn live_key(&self, id: &KeyId) -> Result<Arc<Key>, Error> {
        let gone = || Error::new(Code::Denied, "the key that asked was revoked or has expired meanwhile");
        self.access.live(id).ok_or_else(gone)
    }

    /// Writes down the end of a run that never began; `present` is let go then.
    fn close_unbegun(
        &self,
        (mut execution, args): (Arc<Execution>, Arc<ArgsRecord>),
        error: RunError,
        present: Option<(Present, TaskTrackerToken)>,
    ) {
        let ended = Arc::make_mut(&mut execution);
        let now = self.clock.now_ms();
        ended.status = Status::of(error.code);
        ended.error = Some(error);
        // Those before were interrupted.
        ended.attempts = ended.attempts.saturating_sub(1);
        ended.usage.queue_ms = waited_ms(ended, now);
        ended.finished_at = Some(now);
        ended.duration_us = Some(0);
        self.telemetry.executions.ended(ended, ended.door);
        log::ended(ended);
        let told = self.interceptors.told(&execution.owner, &execution.skill_address);
        let (interceptors, to_wake) = (Arc::clone(&self.interceptors), told.clone());
        let kept = Kept { counts: false, again: true, told };
        Audit::Full.close(&self.store, &self.home, (execution, args, kept), move |_| {
            interceptors.wake(&to_wake);
            drop(present);
        });
    }
}

impl Waiting {
    /// Waits for its turn, and begins it.
    async fn wait(mut self, turn: Turn) {
        let (resting, cancel) = (self.executor.resting.clone(), self.admitted.cancel.clone());
        let next = async {
            Some(match self.renewed(turn).await.transpose()? {
                Ok(()) => Ok(Gathered::of(&self.executor, &self.admitted).await),
                Err(error) => Err(error),
            })
        };
        let next = tokio::select! {
            biased;
            // The next start has it.
            () = resting.cancelled() => return,
            () = cancel.cancelled() => Some(Err(cancelled())),
            next = next => next.map(|next| next.map_err(|error| failed(&error))),
        };
        match next {
            Some(Ok(gathered)) => self.begin(gathered).await,
            Some(Err(error)) => self.close(error),
            None => {}
        }
    }

    /// Waits until it may begin; nothing where that will not be.
    async fn renewed(&mut self, mut turn: Turn) -> Result<Option<()>, Error> {
        loop {
            let Some(place) = turn.come().await else { return Ok(None) };
            self.admitted.place = Some(place);
            if self.renew().await? {
                return Ok(Some(()));
            }
            // Not in a place, for which those may wait that it waits for.
            let Some(room) = self.admitted.place.take().and_then(Place::give_back) else { return Ok(None) };
            tokio::time::sleep(FUEL_WAIT).await;
            turn = self.executor.admission.requeue(self.admitted.caller.owner(), room);
        }
    }

    /// Looks again at what may have changed since it was accepted, and takes its share of its key's
    /// day. Says no where others hold that for now.
    async fn renew(&mut self) -> Result<bool, Error> {
        let (executor, admitted) = (&self.executor, &mut self.admitted);
        let key = executor.live_key(&admitted.caller.key.id)?;
        key.require(Scope::SkillsExecute)?;
        let (id, name) = (admitted.skill.skill.id, &admitted.skill.skill.name);
        if !key.may_see(name) {
            return Err(Error::not_found("skill"));
        }
        let skill = executor.registry.pinned(id).ok_or_else(|| Error::not_found("skill"))?;
        admitted.skill = executor.registry.runnable(skill, Instant::now() + LONGEST_READYING).await?;
        admitted.caller.key = key;
        admitted.limits = limits_for(&admitted.caller, &admitted.request, &admitted.skill.skill)?;
        executor.registry.ready_under(&admitted.limits, &admitted.skill, Instant::now() + LONGEST_READYING).await?;
        executor.require_result_room(&admitted.caller.key)?;
        match executor.budgets.enter(&admitted.caller.key, &mut admitted.limits, false) {
            Ok(share) => {
                admitted.share = share;
                Ok(true)
            }
            Err(Refused::Held(_)) => Ok(false),
            Err(refused @ Refused::UsedUp(_)) => Err(refused.into()),
        }
    }

    async fn begin(mut self, gathered: Result<Gathered, Error>) {
        if self.executor.resting.is_cancelled() {
            // It would be cancelled, and the next start can have it.
            return;
        }
        let now = self.executor.clock.now_ms();
        let execution = Arc::make_mut(&mut self.execution);
        let queue_ms = waited_ms(execution, now);
        execution.status = Status::Running;
        execution.started_at = Some(now);
        execution.usage.queue_ms = queue_ms;
        self.admitted.queue_ms = queue_ms;
        self.admitted.started = Instant::now();
        if self.is_written_down().await {
            Running::begin_waiting(self, gathered);
        }
    }

    /// Writes down that it runs; tries again while there is no room for that.
    async fn is_written_down(&self) -> bool {
        let store = &self.executor.store;
        let again = self.admitted.skill.skill.idempotent;
        let mut wait = FIRST_WAIT;
        loop {
            let written = answered(|then| store.start_execution(Arc::clone(&self.execution), again, then)).await;
            let Err(error) = written else { return true };
            if store.is_closed() || self.executor.resting.is_cancelled() {
                return false;
            }
            tracing::error!(
                execution.id = %self.execution.id, error.code = %error.code,
                "The beginning of an execution could not be written down; it is tried again: {error:?}",
            );
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    fn close(self, error: RunError) {
        let Self { executor, execution, args, present, .. } = self;
        executor.close_unbegun((execution, args), error, Some(present));
    }
}

/// The execution with the attempts that a crash interrupted, which only their number tells.
fn interrupted_before(mut execution: Arc<Execution>) -> Arc<Execution> {
    if execution.attempts > 1 {
        let execution = Arc::make_mut(&mut execution);
        let attempt = |attempt| EarlierAttempt {
            attempt,
            code: Code::Interrupted.as_str().to_owned(),
            message: "the host stopped before the execution ended".to_owned(),
            fuel: 0,
        };
        execution.earlier = (1..execution.attempts).map(attempt).collect();
    }
    execution
}

/// What a request needs to begin, beside the row of its execution.
pub(super) fn kept(request: &ExecutionRequest) -> String {
    let json = |value: Result<String, _>| value.unwrap_or_default();
    format!(
        "{{\"limits\":{},\"retry\":{},\"offline\":{},\"read_only\":{},\"args\":{}}}",
        json(serde_json::to_string(&request.limits)),
        json(serde_json::to_string(&request.retry)),
        request.offline,
        request.read_only,
        request.args.text(),
    )
}

pub(super) fn cancelled() -> RunError {
    RunError::new(Code::Cancelled, "somebody cancelled it before it began")
}

fn failed(error: &Error) -> RunError {
    if error.source.is_some() {
        tracing::error!("An execution that waited could not begin: {error:?}");
    }
    RunError::new(error.code, error.detail.clone())
}

/// How long it has waited, in whole milliseconds.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of some days")]
fn waited_ms(execution: &Execution, now: i64) -> f64 {
    (now - execution.created_at).max(0) as f64
}
