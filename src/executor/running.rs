//! A run from its first row to its last, on whatever thread the next step falls to.
//!
//! Nobody waits in between: the writer's answer to the first row begins the guest, the guest's
//! end sends the last row off, and the writer's answer to that one wakes the caller. Each
//! hand-over between threads that is left out makes a short run cheaper by a twentieth.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::egress::{Credentials, NetworkGrant};
use crate::model::{
    Code, Digest, Error, Execution, ExecutionId, RunError, Said, Status, Streams, Usage, redacted_copy, strict_value,
};
use crate::registry::RegisteredSkill;
use crate::sandbox::{Ends, ReadyRun, RunContext, SandboxCall, SandboxReply};
use crate::store::{ArgsRecord, Claim, Claimed};

use super::audit::Kept;
use super::budgets::Share;
use super::gathered::Gathered;
use super::interceptors::Interception;
use super::live::Present;
use super::queued::{Waiting, cancelled, kept};
use super::{Admitted, COPY_BYTES, Executor, credentials, log, powers, reuse};

/// What the caller hears: how it ended, or why it is not written down.
pub(super) type Answer = oneshot::Sender<Result<Ended, Error>>;

/// How a request ended.
pub(super) enum Ended {
    /// As a run.
    Run(Box<Run>),
    /// As nothing, because an earlier one is the same.
    Known(Claimed),
}

impl Ended {
    /// The execution of a run that claims nothing.
    pub(super) fn into_execution(self) -> Result<Execution, Error> {
        match self {
            Self::Run(run) => Ok(run.into_execution()),
            Self::Known(_) => Err(Error::internal("a run that claims nothing is nobody's")),
        }
    }
}

/// A run that ended and is written down, with what the caller's thread is to free.
pub(super) struct Run {
    execution: Arc<Execution>,
    /// Gives its place among those that run back when dropped.
    _admitted: Admitted,
}

impl Run {
    pub(super) fn into_execution(self) -> Execution {
        Arc::unwrap_or_clone(self.execution)
    }
}

/// An attempt that can begin, and what its requests carry.
pub(super) type Ready = (Box<dyn ReadyRun>, Arc<Credentials>);

/// A run whose record is open. If it is lost on the way (a bug, the end of the threads it ran
/// on), its record is closed all the same.
pub(super) struct Running(Option<Parts>);

pub(super) struct Parts {
    pub(super) executor: Arc<Executor>,
    pub(super) admitted: Admitted,
    pub(super) execution: Arc<Execution>,
    /// What the attempts before this one used.
    pub(super) before: Usage,
    args: Arc<ArgsRecord>,
    answer: Answer,
    /// Others can end it, and know of its end; the host does not stop before.
    present: (Present, TaskTrackerToken),
    /// What interceptors do to it, if there are any.
    pub(super) interception: Option<Box<Interception>>,
}

impl Running {
    /// Writes down that the run begins, and then begins it, unless an earlier one has the same
    /// claim; returns at once.
    pub(super) fn begin(
        executor: &Arc<Executor>,
        (admitted, gathered): (Admitted, Result<Gathered, Error>),
        claim: Option<Claim>,
        answer: Answer,
    ) {
        let (execution, args) = (Arc::new(at_start(executor, &admitted)), Arc::new(args_record(&admitted)));
        // With a claim, nobody who leaves cancels it: so a crash does not either.
        let is_again = claim.is_some() && admitted.skill.skill.idempotent;
        let again = is_again.then(|| kept(&admitted.request).into());
        let present = (executor.live.enter(execution.id, admitted.known()), executor.runs.token());
        let interception = executor.interception(&admitted);
        let parts = Parts {
            executor: Arc::clone(executor),
            interception,
            admitted,
            execution: Arc::clone(&execution),
            before: Usage::default(),
            args: Arc::clone(&args),
            answer,
            present,
        };
        // Here, so that code that must be loaded first is not loaded on the writer's thread.
        let start = parts.start(gathered);
        let running = Self(Some(parts));
        let claim = claim.map(|claim| Claim { again, ..claim });
        executor.audit.open(&executor.store, (execution, args), claim, move |opened| match opened {
            Ok(None) => running.opened().enter(start),
            Ok(Some(first)) => running.refuse(Ok(Ended::Known(first))),
            Err(error) => running.refuse(Err(error)),
        });
    }

    /// Begins a run that waited, now that its record says that it runs.
    pub(super) fn begin_waiting(waiting: Waiting, gathered: Result<Gathered, Error>) {
        let Waiting { executor, admitted, execution, args, present } = waiting;
        // Nobody waits for it.
        let (answer, _) = oneshot::channel();
        let is_cancelled = admitted.cancel.is_cancelled();
        let (before, interception) = (Usage::default(), executor.interception(&admitted));
        let parts = Parts { executor, admitted, execution, before, args, answer, present, interception };
        let start = if is_cancelled { None } else { Some(parts.start(gathered)) };
        let running = Self(Some(parts));
        match start {
            Some(start) => running.enter(start),
            None => running.end(Ok(SandboxReply::without_run(cancelled()))),
        }
    }

    pub(super) fn parts(&mut self) -> Option<&mut Parts> {
        self.0.as_mut()
    }

    /// Tells those who follow that it is on record.
    fn opened(self) -> Self {
        if let Some(parts) = &self.0 {
            parts.admitted.journal.opened(parts.execution.id);
        }
        self
    }

    pub(super) fn run(self, ready: Result<Ready, Error>) {
        match ready {
            Ok((ready, credentials)) => ready.begin(Box::new(move |reply| self.end_without(credentials, reply))),
            Err(error) => self.end(Err(error)),
        }
    }

    /// Ends the run without the secrets that were sent.
    fn end_without(self, credentials: Arc<Credentials>, reply: Result<SandboxReply, Error>) {
        // A kept instance may know from an earlier call what this one did not send.
        let may_know = |parts: &Parts| {
            credentials.is_used() || (parts.admitted.skill.skill.is_reused() && !credentials.is_empty())
        };
        let Some(parts) = self.0.as_ref().filter(|parts| may_know(parts)) else { return self.end(reply) };
        let runtime = parts.executor.home.clone();
        // Output may be long, and other guests wait for this thread.
        runtime.spawn_blocking(move || {
            self.end(reply.map(|reply| credentials::taken_out(reply, &credentials)));
        });
    }

    fn refuse(mut self, answer: Result<Ended, Error>) {
        if let Some(parts) = self.0.take() {
            // The caller may have left.
            let _ = parts.answer.send(answer);
        }
    }

    pub(super) fn end(mut self, reply: Result<SandboxReply, Error>) {
        // A panic in here drops what is not taken yet, which closes the record.
        let Some(parts) = &mut self.0 else { return };
        let reply = parts.settled(reply);
        if let Some(wait) = parts.wait_for_next(&reply) {
            return self.again(wait, reply);
        }
        if parts.interception.is_some() {
            return self.leave(reply);
        }
        self.finish(reply);
    }

    /// Writes down how the run ended.
    pub(super) fn finish(mut self, reply: SandboxReply) {
        let Some(parts) = &mut self.0 else { return };
        parts.finish(reply);
        if let Some(parts) = self.0.take() {
            parts.close();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut parts) = self.0.take() {
            let lost = parts.settled(Err(Error::internal("a run was lost")));
            parts.finish(lost);
            parts.close();
        }
    }
}

impl Parts {
    /// The next attempt, with what was gathered for it.
    pub(super) fn ready(&self, gathered: Result<Gathered, Error>) -> Result<Ready, Error> {
        let gathered = gathered?;
        let credentials = Arc::clone(&gathered.credentials);
        let call = self.prepared(call(&self.executor, &self.admitted, &self.execution, gathered));
        Ok((self.executor.sandbox.ready(call)?, credentials))
    }

    /// The reply, also where there was none.
    fn settled(&self, reply: Result<SandboxReply, Error>) -> SandboxReply {
        reply.unwrap_or_else(|error| {
            tracing::error!(execution.id = %self.execution.id, "An execution could not be carried out: {error:?}");
            let code = if error.code == Code::Internal { Code::Internal } else { Code::Unavailable };
            SandboxReply::without_run(RunError::new(code, error.detail))
        })
    }

    /// Puts the reply into the execution, after the output has been checked.
    fn finish(&mut self, reply: SandboxReply) {
        let Self { executor, admitted, execution, before, .. } = self;
        let execution = Arc::make_mut(execution);
        let outcome = reply.outcome.and_then(|output| {
            check_output((&admitted.skill, admitted.function), output.get())?;
            Ok(output)
        });
        match outcome {
            Ok(output) => {
                execution.status = Status::Success;
                execution.output = Some(output);
            }
            Err(error) => {
                execution.status = Status::of(error.code);
                execution.error = Some(error);
            }
        }
        execution.streams = reply.streams;
        execution.said = reply.said;
        execution.exit_code = reply.exit_code;
        execution.denials = reply.denials;
        execution.usage = Usage { queue_ms: admitted.queue_ms, ..before.and(reply.usage) };
        execution.finished_at = Some(executor.clock.now_ms());
        execution.duration_us = u64::try_from(admitted.started.elapsed().as_micros()).ok();
    }

    /// Writes down how the run ended, and then answers.
    fn close(self) {
        let Self { executor, mut admitted, mut execution, args, answer, present, interception, .. } = self;
        let told = interception.map_or_else(Vec::new, |interception| {
            interception.settle(Arc::make_mut(&mut execution), &admitted.skill.skill.name)
        });
        let share = admitted.share.take();
        let to_wake = told.clone();
        let kept = Kept { counts: share.is_some(), again: admitted.skill.skill.idempotent, told };
        if let Some(share) = share {
            share.settle(execution.usage.fuel);
        }
        executor.telemetry.executions.ended(&execution, admitted.caller.door);
        log::ended(&execution);
        let (audit, store) = (executor.audit, executor.store.clone());
        let home = executor.home.clone();
        audit.close(&store, &home, (Arc::clone(&execution), args, kept), move |closed| {
            executor.interceptors.wake(&to_wake);
            // The caller may have left.
            let _ = answer.send(closed.map(|()| Ended::Run(Box::new(Run { execution, _admitted: admitted }))));
            drop(present);
        });
    }
}

/// The execution as its first row has it.
pub(super) fn at_start(executor: &Executor, admitted: &Admitted) -> Execution {
    let (skill, key) = (&admitted.skill.skill, &admitted.caller.key);
    let now = executor.clock.now_ms();
    Execution {
        id: ExecutionId::generate(),
        owner: key.owner.clone(),
        skill: skill.id,
        skill_address: Arc::clone(&admitted.skill.address),
        function: admitted.skill.function_name(admitted.function),
        digest: skill.handler.digest(),
        status: Status::Running,
        output: None,
        expired: None,
        streams: Streams::default(),
        said: Said::default(),
        exit_code: None,
        error: None,
        denials: Vec::new(),
        attempts: 1,
        earlier: Vec::new(),
        interceptors: Vec::new(),
        usage: Usage { queue_ms: admitted.queue_ms, ..Usage::default() },
        parent_id: admitted.line.parent,
        session_id: admitted.request.session_id.clone(),
        door: admitted.caller.door,
        key_id: key.id.clone(),
        created_at: now,
        started_at: Some(now),
        finished_at: None,
        duration_us: None,
    }
}

pub(super) fn args_record(admitted: &Admitted) -> ArgsRecord {
    let args = admitted.request.args.text();
    ArgsRecord { digest: Digest::of(args.as_bytes()), bytes: args.len() as u64, copy: redacted_copy(args, COPY_BYTES) }
}

/// The call of the guest.
fn call(executor: &Arc<Executor>, admitted: &Admitted, execution: &Execution, gathered: Gathered) -> SandboxCall {
    let limits = admitted.limits;
    let now = Instant::now();
    let whole = admitted.started + Duration::from_millis(limits.timeout_ms);
    let attempt = now + Duration::from_millis(limits.attempt_timeout_ms);
    let ends = if attempt < whole { Ends::Attempt } else { Ends::Whole };
    let deadline = whole.min(attempt);
    let left = deadline.saturating_duration_since(now);
    admitted.journal.begin(execution.attempts, !gathered.credentials.is_empty());
    let context = RunContext {
        execution: execution.id,
        skill: Arc::clone(&execution.skill_address),
        skill_owner: admitted.skill.skill.owner.clone(),
        owner: execution.owner.clone(),
        session: execution.session_id.clone(),
        attempt: execution.attempts,
        deadline_ms: executor.clock.now_ms() + i64::try_from(left.as_millis()).unwrap_or(i64::MAX / 2),
        journal: Arc::clone(&admitted.journal),
        added: None,
    };
    SandboxCall {
        digest: execution.digest,
        function: Arc::clone(&execution.function),
        args: admitted.request.args.text().to_owned(),
        limits,
        deadline,
        ends,
        cancel: admitted.cancel.clone(),
        context: Arc::new(context),
        network: Arc::new(network_for(admitted)),
        workspace: gathered.workspace,
        workspaces: Some(Arc::clone(&executor.workspaces)),
        credentials: gathered.credentials,
        powers: powers::of(executor, admitted, execution),
        depth: admitted.line.depth(),
        reuse: reuse::whose(admitted),
    }
}

/// Where the run may connect to: what the manifest asks for, under every ceiling.
fn network_for(admitted: &Admitted) -> NetworkGrant {
    let (skill, offline) = (&admitted.skill.skill, admitted.request.offline);
    let manifest = skill.grants.network.clone();
    if manifest.is_empty() {
        return NetworkGrant::default();
    }
    let caller = admitted.caller.key.max_network();
    let allowance = admitted.share.as_ref().and_then(Share::allowance);
    let above = admitted.line.network.clone();
    NetworkGrant { manifest, registrar: skill.frozen_network.clone(), above, caller, offline, allowance }
}

fn check_output((skill, function): (&RegisteredSkill, usize), text: &str) -> Result<(), RunError> {
    let internal = |error: Error| RunError::new(Code::Internal, error.detail);
    let Some(checker) = skill.output(function).map_err(internal)? else { return Ok(()) };
    let invalid = |message: String| RunError::new(Code::InvalidOutput, message);
    // Strictly: a caller who reads another one of two equal keys would see what was not checked.
    let value = strict_value(text).map_err(|error| invalid(format!("the output is {}", error.detail)))?;
    checker.check(&value).map_err(|fields| {
        let first = fields.first().map(|field| format!(" at {:?}: {}", field.pointer, field.detail));
        invalid(format!("the output does not match the output schema{}", first.unwrap_or_default()))
    })
}
