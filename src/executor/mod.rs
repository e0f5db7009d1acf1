//! One request from start to record: [`Executor::execute`] is the story, the other files are its verbs.

mod admission;
mod apart;
mod audit;
mod budgets;
mod cancel;
mod children;
mod close;
mod credentials;
mod cut;
mod ending;
mod files;
mod following;
mod gathered;
mod idempotent;
mod interceptors;
mod keyvalue;
mod live;
mod log;
mod powers;
mod queued;
mod rates;
mod records;
mod result_room;
mod retrying;
mod reuse;
mod room;
mod running;
mod starts;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::Access;
use crate::model::{Caller, Clock, Code, Error, Execution, ExecutionRequest, Key, Limits, RateState, Scope, Skill};
use crate::registry::{RegisteredSkill, Registry};
use crate::sandbox::{Journal, SandboxProvider};
use crate::secrets::Secrets;
use crate::store::{Claim, KeyDay, Store};
use crate::telemetry::{Load, Telemetry};
use crate::workspace::Workspaces;

use self::admission::Admission;
use self::budgets::{Ledger, Share};
use self::children::Line;
use self::gathered::Gathered;
use self::live::Live;
use self::rates::Rates;
use self::running::{Ended, Running};

pub use self::admission::AdmissionSettings;
pub(crate) use self::apart::apart;
pub use self::audit::Audit;
pub use self::budgets::Spent;
pub use self::following::{Following, Streamed, Told};
pub use self::idempotent::Once;
pub(crate) use self::idempotent::REMEMBERED;
pub(crate) use self::interceptors::told_of_ends;
pub use self::interceptors::{
    After, Asked, Before, Interceptor, InterceptorParts, InterceptorPatch, Interceptors, NativeInterceptor,
    NewInterceptor, Outcome,
};
pub use crate::store::{ExecutionFilter, ExecutionPage};

/// Most bytes of arguments and output that the audit row keeps.
const COPY_BYTES: usize = 2048;
/// Who waited for longer has its key looked at again, in microseconds.
const WAITED_US: u32 = 1000;
/// Longest session id, in bytes.
const MAX_SESSION: usize = 256;

/// What an executor works with.
#[derive(Clone)]
pub struct ExecutorParts {
    /// Where runs are written down.
    pub store: Store,
    /// Whose keys are still good.
    pub access: Arc<Access>,
    /// Which skills there are.
    pub registry: Arc<Registry>,
    /// What their requests carry.
    pub secrets: Arc<Secrets>,
    /// Where they run.
    pub sandbox: Arc<dyn SandboxProvider>,
    /// The time of day.
    pub clock: Clock,
    /// Where runs are counted.
    pub telemetry: Arc<Telemetry>,
    /// When runs are written down.
    pub audit: Audit,
    /// Where owners' files lie.
    pub workspaces: Arc<Workspaces>,
    /// What keys with budgets have used today.
    pub spent: Vec<KeyDay>,
    /// What stands around runs.
    pub interceptors: Arc<Interceptors>,
}

/// Runs skills, and writes down every run.
pub struct Executor {
    store: Store,
    access: Arc<Access>,
    registry: Arc<Registry>,
    secrets: Arc<Secrets>,
    sandbox: Arc<dyn SandboxProvider>,
    clock: Clock,
    telemetry: Arc<Telemetry>,
    audit: Audit,
    workspaces: Arc<Workspaces>,
    admission: Arc<Admission>,
    rates: Rates,
    budgets: Ledger,
    interceptors: Arc<Interceptors>,
    /// All runs whose records are open, by their ids.
    live: Arc<Live>,
    /// Turns at what skills keep.
    kept: Arc<keyvalue::Gates>,
    /// Where what goes on after a run is done, on whatever thread that ended.
    home: Handle,
    /// The same, to wait for all of them.
    runs: TaskTracker,
    /// Ends them.
    stopping: CancellationToken,
    /// Leaves those that wait on their own for the next start.
    resting: CancellationToken,
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
    /// Ends the guest, not the record.
    cancel: CancellationToken,
    /// Who waits for it.
    line: Line,
    /// Its share of its key's day.
    share: Option<Share>,
    /// What it says while it runs.
    journal: Arc<Journal>,
    /// Where it runs; a child runs where its caller waits.
    place: Option<admission::Place>,
}

impl Executor {
    /// An executor that admits as the settings say. Must be called on a tokio runtime.
    pub fn new(parts: ExecutorParts, settings: AdmissionSettings) -> Arc<Self> {
        let ExecutorParts { store, access, registry, secrets, sandbox, clock, telemetry, audit, workspaces, .. } =
            parts;
        let (spent, interceptors) = (parts.spent, parts.interceptors);
        let (rates, budgets) = (Rates::default(), Ledger::new(clock.clone(), spent));
        let admission = Admission::new(settings);
        let (runs, stopping) = (TaskTracker::new(), CancellationToken::new());
        let (live, kept, home) = (Arc::default(), Arc::default(), Handle::current());
        let resting = CancellationToken::new();
        Arc::new(Self {
            store,
            access,
            registry,
            secrets,
            sandbox,
            clock,
            telemetry,
            audit,
            workspaces,
            admission,
            rates,
            budgets,
            interceptors,
            live,
            kept,
            home,
            runs,
            stopping,
            resting,
        })
    }

    /// Begins nothing more of what waits on its own, and waits until what runs has ended.
    pub async fn drain(&self) {
        self.resting.cancel();
        self.runs.close();
        self.runs.wait().await;
    }

    /// Cancels what still runs, and waits until its record is closed, for at most `longest`.
    pub async fn stop(&self, longest: Duration) {
        self.resting.cancel();
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
        let admitted = self.admitted(caller, request).await?;
        let left = admitted.cancel.clone();
        let _cancels_when_dropped = left.drop_guard();
        self.begin(admitted, None).await?.into_execution()
    }

    /// [`Executor::admit`], and counts what is refused.
    async fn admitted(&self, caller: Caller, request: ExecutionRequest) -> Result<Admitted, Error> {
        let door = caller.door;
        let admitted = self.admit(caller, request).await;
        admitted.inspect_err(|error| self.telemetry.executions.refused(error.code, door))
    }

    /// Begins a run and waits for its end, which comes also when nobody waits.
    async fn begin(self: &Arc<Self>, admitted: Admitted, claim: Option<Claim>) -> Result<Ended, Error> {
        let (answer, answered) = oneshot::channel();
        let gathered = Gathered::of(self, &admitted).await;
        Running::begin(self, (admitted, gathered), claim, answer);
        answered.await.map_err(Error::internal)?
    }

    /// Everything that can refuse a request before it is a run.
    async fn admit(&self, caller: Caller, request: ExecutionRequest) -> Result<Admitted, Error> {
        let mut admitted = self.resolved(caller, request).await?;
        admitted.share = self.allowed(&admitted.caller.key, &mut admitted.limits, false)?;
        let deadline = admitted.started + Duration::from_millis(admitted.limits.timeout_ms);
        let queued = Instant::now();
        let place = self.admission.enter(admitted.caller.owner(), deadline).await?;
        // Whole microseconds, as the store keeps them: the reply and the record say the same.
        let queue_us = u32::try_from(queued.elapsed().as_micros()).unwrap_or(u32::MAX);
        // What waited may be of a key that ended meanwhile.
        if queue_us > WAITED_US && self.access.live(&admitted.caller.key.id).is_none() {
            return Err(Error::new(Code::Denied, "the key that asked was revoked or has expired meanwhile"));
        }
        admitted.check(&*self.sandbox)?;
        Ok(Admitted { queue_ms: f64::from(queue_us) / 1000.0, place: Some(place), ..admitted })
    }

    /// Everything that can refuse a request before it waits for its place.
    async fn resolved(&self, caller: Caller, request: ExecutionRequest) -> Result<Admitted, Error> {
        let started = Instant::now();
        caller.key.require(Scope::SkillsExecute)?;
        let session = request.session_id.as_ref().map_or(0, String::len);
        if session > MAX_SESSION {
            let detail = format!("the session id has more than {MAX_SESSION} bytes");
            return Err(Error::at(Code::Malformed, "/sessionId", detail));
        }
        let skill = self.registry.resolve(&caller, &request.skill)?;
        let function = skill.function(request.skill.function())?;
        skill.skill.handler.require_allowed(&caller.key)?;
        if request.digest.is_some_and(|digest| digest != skill.skill.handler.digest()) {
            let detail = format!("{} has the digest {}", skill.skill.address(), skill.skill.handler.digest());
            return Err(Error::at(Code::DigestMismatch, "/digest", detail));
        }
        let limits = limits_for(&caller, &request, &skill.skill)?;
        let deadline = started + Duration::from_millis(limits.timeout_ms);
        let skill = self.registry.runnable(skill, deadline).await?;
        self.registry.ready_under(&limits, &skill, deadline).await?;
        Ok(Admitted {
            caller,
            request,
            skill,
            function,
            limits,
            started,
            queue_ms: 0.0,
            cancel: self.stopping.child_token(),
            line: Line::default(),
            share: None,
            journal: Arc::default(),
            place: None,
        })
    }
}

impl Executor {
    /// Whether a key may start one more run now: its rate, the room for its result, and then its budgets.
    fn allowed(&self, key: &Key, limits: &mut Limits, called: bool) -> Result<Option<Share>, Error> {
        self.rates.take(key, Instant::now())?;
        self.require_result_room(key)?;
        Ok(self.budgets.enter(key, limits, called)?)
    }

    /// What a key with budgets used today.
    pub fn spent(&self, key: &Key) -> Spent {
        self.budgets.spent(&key.id)
    }

    /// The time of day, in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// How many executions a key may start now, if it has a rate.
    pub fn rate(&self, key: &Key) -> Option<RateState> {
        self.rates.state(key, Instant::now())
    }
}

impl Admitted {
    /// How others end it and follow it.
    fn known(&self) -> (CancellationToken, Arc<Journal>) {
        (self.cancel.clone(), Arc::clone(&self.journal))
    }

    /// Refuses arguments that the function does not take.
    fn check(&self, sandbox: &dyn SandboxProvider) -> Result<(), Error> {
        let request = &self.request;
        let what = (&*self.skill, self.function);
        apart(request.args.text().len(), || check_args(sandbox, request, what, &self.limits))
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

fn check_args(
    sandbox: &dyn SandboxProvider,
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
    })?;
    // What has types has a schema; that does not say all that a type does, and may be the manifest's own.
    sandbox.fits(skill.skill.handler.digest(), &skill.function_name(function), (request.args.text(), limits))
}
