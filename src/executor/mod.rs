//! One request from start to record: [`Executor::execute`] is the story, the other files are its verbs.

mod admission;
mod audit;
mod children;
mod close;
mod keyvalue;
mod log;
mod outlive;
mod powers;
mod records;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::egress::NetworkGrant;
use crate::model::{
    Caller, Clock, Code, Digest, Error, Execution, ExecutionId, ExecutionRequest, Limits, RunError, Said, Scope, Skill,
    Status, Streams, Usage, redacted_copy, strict_value,
};
use crate::registry::{RegisteredSkill, Registry};
use crate::sandbox::{Ends, Journal, RunContext, SandboxCall, SandboxProvider, SandboxReply};
use crate::store::{ArgsRecord, Store};
use crate::telemetry::{Load, Telemetry};

use self::admission::Admission;
use self::children::Line;
use self::outlive::Outlive;

pub use self::admission::AdmissionSettings;
pub use self::audit::Audit;
pub use crate::store::{ExecutionFilter, ExecutionPage};

/// Most bytes of arguments and output that the audit row keeps.
const COPY_BYTES: usize = 2048;
/// Longest session id, in bytes.
const MAX_SESSION: usize = 256;

/// What an executor works with.
#[derive(Clone)]
pub struct ExecutorParts {
    /// Where runs are written down.
    pub store: Store,
    /// Which skills there are.
    pub registry: Arc<Registry>,
    /// Where they run.
    pub sandbox: Arc<dyn SandboxProvider>,
    /// The time of day.
    pub clock: Clock,
    /// Where runs are counted.
    pub telemetry: Arc<Telemetry>,
    /// When runs are written down.
    pub audit: Audit,
}

/// Runs skills, and writes down every run.
pub struct Executor {
    store: Store,
    registry: Arc<Registry>,
    sandbox: Arc<dyn SandboxProvider>,
    clock: Clock,
    telemetry: Arc<Telemetry>,
    audit: Audit,
    admission: Arc<Admission>,
    /// Turns at what skills keep.
    kept: Arc<keyvalue::Gates>,
    /// Where the records of called skills are written, whatever becomes of their callers.
    home: Handle,
    /// All runs whose records are open.
    runs: TaskTracker,
    /// Ends them.
    stopping: CancellationToken,
}

/// A run that may begin.
struct Admitted {
    caller: Caller,
    request: ExecutionRequest,
    skill: Arc<RegisteredSkill>,
    /// Which of its functions.
    function: usize,
    limits: Limits,
    started: Instant,
    queue_ms: f64,
    /// Who waits for it.
    line: Line,
    /// Where it runs; a child runs where its caller waits.
    #[expect(dead_code, reason = "held for its drop")]
    place: Option<admission::Place>,
}

impl Executor {
    /// An executor that admits as the settings say. Must be called on a tokio runtime.
    pub fn new(parts: ExecutorParts, settings: AdmissionSettings) -> Arc<Self> {
        let ExecutorParts { store, registry, sandbox, clock, telemetry, audit } = parts;
        let admission = Admission::new(settings);
        let (runs, stopping) = (TaskTracker::new(), CancellationToken::new());
        let (kept, home) = (Arc::default(), Handle::current());
        Arc::new(Self { store, registry, sandbox, clock, telemetry, audit, admission, kept, home, runs, stopping })
    }

    /// Cancels what still runs, and waits until its record is closed, for at most `longest`.
    pub async fn stop(&self, longest: Duration) {
        self.stopping.cancel();
        self.runs.close();
        if tokio::time::timeout(longest, self.runs.wait()).await.is_err() {
            tracing::warn!("Some runs did not end within {longest:?}; the next start closes their records");
        }
    }

    /// How much there is to do now.
    pub fn load(&self) -> Load {
        self.admission.load()
    }

    /// Carries out one request and records it. Dropping the future cancels the run; the
    /// record is closed all the same.
    ///
    /// # Errors
    ///
    /// Why it did not become a run: nothing of it is recorded, and nothing was started. A run
    /// that failed is an `Ok` whose status says so.
    pub async fn execute(self: &Arc<Self>, caller: Caller, request: ExecutionRequest) -> Result<Execution, Error> {
        let door = caller.door;
        let admitted = self.admit(caller, request).await;
        let admitted = admitted.inspect_err(|error| self.telemetry.executions.refused(error.code, door))?;
        let left = self.stopping.child_token();
        Outlive::new(left.clone(), &self.runs, Arc::clone(self).run_and_record(admitted, left)).await
    }

    /// Everything that can refuse a request before it is a run.
    async fn admit(&self, caller: Caller, request: ExecutionRequest) -> Result<Admitted, Error> {
        let started = Instant::now();
        caller.key.require(Scope::SkillsExecute)?;
        let session = request.session_id.as_ref().map_or(0, String::len);
        if session > MAX_SESSION {
            let detail = format!("the session id has more than {MAX_SESSION} bytes");
            return Err(Error::at(Code::Malformed, "/sessionId", detail));
        }
        let skill = self.registry.resolve(&caller, &request.skill)?;
        let function = skill.function(request.skill.function())?;
        if request.digest.is_some_and(|digest| digest != skill.skill.handler.digest()) {
            let detail = format!("{} has the digest {}", skill.skill.address(), skill.skill.handler.digest());
            return Err(Error::at(Code::DigestMismatch, "/digest", detail));
        }
        let limits = limits_for(&caller, &request, &skill.skill)?;
        let deadline = started + Duration::from_millis(limits.timeout_ms);
        let skill = self.registry.runnable(skill, deadline).await?;
        let queued = Instant::now();
        let place = self.admission.enter(caller.owner(), deadline).await?;
        // Whole microseconds, as the store keeps them: the reply and the record say the same.
        let queue_us = u32::try_from(queued.elapsed().as_micros()).unwrap_or(u32::MAX);
        let queue_ms = f64::from(queue_us) / 1000.0;
        check_args(&request, (&skill, function), &limits)?;
        Ok(Admitted {
            caller,
            request,
            skill,
            function,
            limits,
            started,
            queue_ms,
            line: Line::default(),
            place: Some(place),
        })
    }

    async fn run_and_record(self: Arc<Self>, admitted: Admitted, left: CancellationToken) -> Result<Execution, Error> {
        let (execution, args) = self.open(&admitted).await?;
        let mut execution = Arc::unwrap_or_clone(execution);
        let reply = self.attempt(&admitted, &execution, left).await.unwrap_or_else(|error| {
            tracing::error!(execution.id = %execution.id, "An execution could not be carried out: {error:?}");
            let code = if error.code == Code::Internal { Code::Internal } else { Code::Unavailable };
            SandboxReply::without_run(RunError::new(code, error.detail))
        });
        self.finish(&mut execution, &admitted, reply);
        self.telemetry.executions.ended(&execution, admitted.caller.door);
        let execution = Arc::new(execution);
        self.audit.close(&self.store, &execution, args).await?;
        log::ended(&execution);
        Ok(Arc::unwrap_or_clone(execution))
    }

    /// Writes down that the run begins, before anything of the guest does.
    async fn open(&self, admitted: &Admitted) -> Result<(Arc<Execution>, Arc<ArgsRecord>), Error> {
        let (skill, key) = (&admitted.skill.skill, &admitted.caller.key);
        let args = admitted.request.args.text();
        let now = self.clock.now_ms();
        let execution = Arc::new(Execution {
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
            usage: Usage { queue_ms: admitted.queue_ms, ..Usage::default() },
            parent_id: admitted.line.parent,
            session_id: admitted.request.session_id.clone(),
            door: admitted.caller.door,
            key_id: key.id.clone(),
            created_at: now,
            started_at: Some(now),
            finished_at: None,
            duration_us: None,
        });
        let args = Arc::new(ArgsRecord {
            digest: Digest::of(args.as_bytes()),
            bytes: args.len() as u64,
            copy: redacted_copy(args, COPY_BYTES),
        });
        self.audit.open(&self.store, &execution, &args).await?;
        Ok((execution, args))
    }

    async fn attempt(
        self: &Arc<Self>,
        admitted: &Admitted,
        execution: &Execution,
        cancel: CancellationToken,
    ) -> Result<SandboxReply, Error> {
        let limits = admitted.limits;
        let attempt = Duration::from_millis(limits.attempt_timeout_ms);
        let whole = admitted.started + Duration::from_millis(limits.timeout_ms);
        let attempt = Instant::now() + attempt;
        let ends = if attempt < whole { Ends::Attempt } else { Ends::Whole };
        let deadline = whole.min(attempt);
        let left = deadline.saturating_duration_since(Instant::now());
        let context = RunContext {
            execution: execution.id,
            skill: Arc::clone(&execution.skill_address),
            owner: execution.owner.clone(),
            session: execution.session_id.clone(),
            attempt: 1,
            deadline_ms: self.clock.now_ms() + i64::try_from(left.as_millis()).unwrap_or(i64::MAX / 2),
            journal: Journal::default(),
        };
        let powers = powers::of(self, admitted, execution, &cancel);
        let call = SandboxCall {
            digest: execution.digest,
            function: Arc::clone(&execution.function),
            args: admitted.request.args.text().to_owned(),
            limits,
            deadline,
            ends,
            cancel,
            context: Arc::new(context),
            network: Arc::new(network_for(admitted)),
            powers,
            depth: admitted.line.depth(),
        };
        self.sandbox.run(call).await
    }

    /// Puts the reply into the execution, after the output has been checked.
    fn finish(&self, execution: &mut Execution, admitted: &Admitted, reply: SandboxReply) {
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
        execution.usage = Usage { queue_ms: admitted.queue_ms, ..reply.usage };
        execution.finished_at = Some(self.clock.now_ms());
        execution.duration_us = u64::try_from(admitted.started.elapsed().as_micros()).ok();
    }
}

/// What the run may use: as asked or as registered, under every ceiling.
fn limits_for(caller: &Caller, request: &ExecutionRequest, skill: &Skill) -> Result<Limits, Error> {
    if let Some(limit) = request.limits.zero() {
        return Err(Error::at(Code::Malformed, format!("/limits/{limit}"), "must be larger than 0"));
    }
    let asked = request.limits.over(skill.limits);
    Ok(asked.intersect(skill.frozen_limits).intersect(caller.key.max_limits()))
}

/// Where the run may connect to: what the manifest asks for, under every ceiling.
fn network_for(admitted: &Admitted) -> NetworkGrant {
    let (skill, offline) = (&admitted.skill.skill, admitted.request.offline);
    let manifest = skill.grants.network.clone();
    if manifest.is_empty() {
        return NetworkGrant::default();
    }
    let caller = admitted.caller.key.max_network();
    let above = admitted.line.network.clone();
    NetworkGrant { manifest, registrar: skill.frozen_network.clone(), above, caller, offline }
}

fn check_args(
    request: &ExecutionRequest,
    (skill, function): (&RegisteredSkill, usize),
    limits: &Limits,
) -> Result<(), Error> {
    let bytes = request.args.text().len() as u64;
    if bytes > limits.args_bytes {
        let detail = format!("the arguments have {bytes} bytes; limits.argsBytes is {}", limits.args_bytes);
        return Err(Error::new(Code::TooLarge, detail));
    }
    let Some(checker) = skill.input(function)? else { return Ok(()) };
    checker.check(&request.args.to_value()).map_err(|fields| {
        let detail = format!("the arguments do not match the input schema of {}", skill.skill.address());
        Error::fields(Code::InvalidArgs, detail, fields)
    })
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
