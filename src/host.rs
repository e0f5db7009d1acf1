//! A whole host without a face: everything is built here, once.

mod auditing;
mod backup;
mod directory;
mod erasing;
mod install;
mod intercepting;
mod library;
mod retention;
mod usage;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use crate::access::Access;
use crate::catalogue::{self, CatalogueSettings};
use crate::egress::{EgressSettings, Guard};
use crate::executor::{AdmissionSettings, Audit, Executor, ExecutorParts, Interceptors, NativeInterceptor};
use crate::model::{ApprovalPolicy, Clock, ContainerPolicy, Error, Secret};
use crate::registry::Registry;
use crate::sandbox::{
    CompileSettings, ContainerSandbox, ContainerSettings, ReuseSettings, SandboxProvider, SandboxRunner, Sandboxes,
    WasmSandbox, WasmSettings,
};
use crate::secrets::{KEY_FILE, KeySource, Secrets};
use crate::sources::{SourceSettings, Sources};
use crate::store::Store;
use crate::telemetry::Telemetry;
use crate::workspace::{DEFAULT_QUOTA, Quota, Workspaces};

pub use self::directory::{DirectoryProblem, LOCK_FILE, directory_problem};
use self::directory::{lock, own_directories};
use self::retention::Retention;

pub use self::backup::{BackedUp, KEYS, Progress as CopyProgress, Restored, back_up, restore};
pub use self::install::{Install, Named};
pub use self::usage::{BudgetUsage, MAX_USAGE_DAYS, Spent, StorageUsage, Usage, UsageFilter, Used};

/// The file with the first admin key's secret, for the local command line.
pub const ADMIN_KEY_FILE: &str = "admin.key";

/// The file in which whoever has the lock says where it serves, if it serves.
pub(crate) const SERVER_FILE: &str = "server.json";

/// How long runs may take to end once they are cancelled.
const STOP: Duration = Duration::from_secs(5);

/// What becomes of runs that nobody waits for and that had not begun when the host stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// They wait again, and begin when their turn comes.
    Begun,
    /// They are left for another start, as a host does that is there for one command only.
    Left,
}

/// How a host is built.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The one directory with everything the host keeps.
    pub data_dir: PathBuf,
    /// Secret of the first admin key; a new one is made if there is none.
    pub admin_key: Option<Secret>,
    /// How many executions may run and wait.
    pub admission: AdmissionSettings,
    /// How components are compiled.
    pub compile: CompileSettings,
    /// How far instances of skills that ask for it are used again.
    pub reuse: ReuseSettings,
    /// What runs container skills, and which images they may name.
    pub containers: ContainerPolicy,
    /// What may be reached beside the public internet.
    pub egress: EgressSettings,
    /// Where skills may be installed from.
    pub sources: SourceSettings,
    /// What an owner may leave lying in its workspace, where its keys' ceilings say nothing else.
    pub workspace: Quota,
    /// Where the key comes from that secrets are sealed with; a file in the data directory if
    /// nothing is said.
    pub secrets_key: Option<KeySource>,
    /// How long the full result of an execution is kept.
    pub keep_results: Duration,
    /// How long the audit is kept; for ever if nothing is said.
    pub keep_audit: Option<Duration>,
    /// Whether versions that may do more than the one before have to be accepted.
    pub approval: ApprovalPolicy,
    /// The skills that are there without an upload; [`CatalogueSettings::off`] for none.
    pub catalogue: CatalogueSettings,
    /// What becomes of runs that waited when the host stopped.
    pub queued: Queued,
    /// Interceptors of the embedding program. They stand around runs from the first one on.
    pub interceptors: Vec<NativeInterceptor>,
    /// How often a webhook is told of an execution before it is given up.
    pub webhook_attempts: u32,
    /// When runs are written down; something else than promised only to measure what that costs.
    pub(crate) audit: Audit,
    /// The time of day.
    pub clock: Clock,
}

impl HostOptions {
    /// The defaults, with everything in `data_dir` and `program` to compile components:
    /// what [`compile_worker`](crate::compile_worker) gives at the start of `main`, or the path
    /// of a `skillvisor` of this version. With any other program nothing can be registered:
    /// the host says `unavailable`, and never compiles in its own process.
    pub fn new(data_dir: impl Into<PathBuf>, program: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            admin_key: None,
            admission: AdmissionSettings {
                concurrency_host: 256,
                concurrency_per_owner: 128,
                queue_host: 4096,
                queue_per_owner: 1024,
            },
            compile: CompileSettings {
                program: program.into(),
                memory_mb: 2048,
                timeout: Duration::from_secs(120),
                workers: 2,
            },
            reuse: ReuseSettings::default(),
            containers: ContainerPolicy::default(),
            egress: EgressSettings::default(),
            sources: SourceSettings::default(),
            workspace: DEFAULT_QUOTA,
            secrets_key: None,
            keep_results: Duration::from_secs(24 * 60 * 60),
            keep_audit: None,
            approval: ApprovalPolicy::None,
            catalogue: CatalogueSettings::default(),
            queued: Queued::Begun,
            interceptors: Vec::new(),
            webhook_attempts: 8,
            audit: Audit::default(),
            clock: Clock::System,
        }
    }
}

/// A running host. Dropping the last clone gives the data directory free.
#[derive(Clone)]
pub struct Host {
    /// Keys.
    pub access: Arc<Access>,
    /// Skills.
    pub(crate) registry: Arc<Registry>,
    /// What skills' requests carry.
    pub(crate) secrets: Arc<Secrets>,
    /// Where skills are installed from.
    pub(crate) sources: Arc<Sources>,
    /// Runs.
    pub(crate) executor: Arc<Executor>,
    /// Code around them.
    pub(crate) interceptors: Arc<Interceptors>,
    /// What is remembered.
    pub(crate) store: Store,
    /// The directory for unfinished files.
    pub(crate) temporary: PathBuf,
    clock: Clock,
    pub(crate) telemetry: Arc<Telemetry>,
    /// Owners' files.
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) runner: SandboxRunner,
    _retention: Arc<AbortOnDropHandle<()>>,
    _lock: Arc<File>,
}

impl Host {
    /// Opens the data directory, ends what a dead host left open, and loads the skills.
    ///
    /// # Errors
    ///
    /// `unavailable` if another host uses the directory or somebody else may write it.
    pub async fn open(options: HostOptions) -> Result<Self, Error> {
        let compile = from_anywhere(options.compile)?;
        let (dir, lock) = locked(&options.data_dir)?;
        let [temporary, blobs, workspaces] = own_directories(&dir)?;
        let workspaces = Workspaces::open(workspaces, temporary.clone(), options.workspace);
        let workspaces = Arc::new(workspaces.map_err(Error::internal)?);
        let telemetry = Telemetry::new();
        let key = options.secrets_key.unwrap_or_else(|| KeySource::File(dir.join(KEY_FILE)));
        let store = open_store(&dir, &telemetry, &key)?;
        let secrets = Arc::new(Secrets::open(store.clone(), options.clock.clone(), key).await?);
        end_what_ran(&store, &options.clock).await?;
        let access = access(&store, &options.clock, (&dir, options.admin_key.as_ref())).await?;
        let guard = Guard::new(options.egress)?;
        let settings = (compile, options.admission.concurrency_host, options.reuse);
        let wasm = wasm((&dir, &temporary), settings, (&telemetry, &guard));
        let (sandbox, runner) = sandboxes(WasmSandbox::new(wasm)?, containers(&dir, options.containers));
        let kept = (blobs, options.approval);
        let registry = Registry::open(store.clone(), Arc::clone(&sandbox), options.clock.clone(), kept).await?;
        catalogue::load(&registry, &options.catalogue, &temporary).await?;
        let keep = (options.keep_results, options.keep_audit);
        let retention = retention((&store, &access, &telemetry), &options.clock, keep);
        let (kept, settings) = ((&store, &access, &secrets), (&options.clock, options.webhook_attempts));
        let interceptors = intercepting::open(kept, (&sandbox, &guard), settings, options.interceptors).await?;
        let clock = options.clock.clone();
        let parts = ExecutorParts {
            interceptors: Arc::clone(&interceptors),
            spent: store.key_days(options.clock.now_ms()).await?,
            store: store.clone(),
            access: Arc::clone(&access),
            secrets: Arc::clone(&secrets),
            registry: Arc::clone(&registry),
            sandbox,
            clock: options.clock,
            telemetry: Arc::clone(&telemetry),
            audit: options.audit,
            workspaces: Arc::clone(&workspaces),
        };
        let executor = executor(parts, options.admission, options.queued).await?;
        let host = Self {
            runner,
            workspaces,
            access,
            registry,
            secrets,
            sources: Arc::new(Sources::new(guard, options.sources)),
            executor,
            interceptors,
            store,
            temporary,
            clock,
            telemetry,
            _retention: retention,
            _lock: Arc::new(lock),
        };
        host.go_on_erasing().await?;
        Ok(host)
    }

    /// What was counted so far, for Prometheus ([`crate::telemetry::CONTENT_TYPE`]).
    ///
    /// # Errors
    ///
    /// `internal` if a thread cannot be had.
    pub async fn metrics(&self) -> Result<String, Error> {
        let (telemetry, load) = (Arc::clone(&self.telemetry), self.executor.load());
        let render = move || telemetry.render(load).map_err(Error::internal);
        tokio::task::spawn_blocking(render).await.map_err(Error::internal)?
    }

    /// Cancels what still runs, writes out what is under way and closes the database.
    pub async fn close(&self) {
        self.executor.stop(STOP).await;
        self.runner.kill_all().await;
        self.interceptors.stop();
        self.access.note_failures(true);
        self.store.close().await;
    }
}

/// The data directory without links on the way, which somebody could lead elsewhere; locked, and whole.
fn locked(data_dir: &Path) -> Result<(PathBuf, File), Error> {
    let dir = std::path::absolute(data_dir).map_err(Error::internal)?;
    let lock = lock(&dir)?;
    let dir = dir.canonicalize().map_err(Error::internal)?;
    backup::require_whole(&dir)?;
    Ok((dir, lock))
}

/// How components run on this machine.
fn wasm(
    (dir, temporary): (&Path, &Path),
    (compile, instances, reuse): (CompileSettings, usize, ReuseSettings),
    (telemetry, guard): (&Arc<Telemetry>, &Arc<Guard>),
) -> WasmSettings {
    WasmSettings {
        cache: dir.join("cache"),
        temporary: temporary.to_owned(),
        instances: instances.try_into().unwrap_or(u32::MAX),
        compile,
        telemetry: Arc::clone(telemetry),
        egress: Arc::clone(guard),
        reuse,
    }
}

/// Whatever skills run in, and the way to run a container without one.
fn sandboxes(wasm: WasmSandbox, containers: ContainerSandbox) -> (Arc<dyn SandboxProvider>, SandboxRunner) {
    let runner = containers.runner();
    (Arc::new(Sandboxes::new(wasm, containers)), runner)
}

/// Where container skills run, below the data directory: what their runs need lies there meanwhile.
pub(crate) fn containers(dir: &Path, policy: ContainerPolicy) -> ContainerSandbox {
    ContainerSandbox::new(ContainerSettings { policy, directory: dir.join("containers") })
}

/// Forgets what is old, for as long as somebody has what this gives.
fn retention(
    (store, access, telemetry): (&Store, &Arc<Access>, &Arc<Telemetry>),
    clock: &Clock,
    keep: (Duration, Option<Duration>),
) -> Arc<AbortOnDropHandle<()>> {
    let (store, access, telemetry) = (store.clone(), Arc::clone(access), Arc::clone(telemetry));
    let retention = Retention { store, access, clock: clock.clone(), telemetry, keep };
    Arc::new(AbortOnDropHandle::new(tokio::spawn(retention.run())))
}

/// Opens the database, before which nothing is changed: a start with the wrong key for secrets is none.
fn open_store(dir: &Path, telemetry: &Arc<Telemetry>, key: &KeySource) -> Result<Store, Error> {
    Store::open_if(dir, Arc::clone(telemetry), |sealed| key.require(sealed.iter().copied()).map(drop))
}

/// The keys, with a first one that may do everything.
async fn access(store: &Store, clock: &Clock, (dir, chosen): (&Path, Option<&Secret>)) -> Result<Arc<Access>, Error> {
    let access = Access::open(store.clone(), clock.clone(), &dir.join(ADMIN_KEY_FILE)).await?;
    access.ensure_admin(chosen).await?;
    Ok(Arc::new(access))
}

/// Closes the records of what ran when a host died.
async fn end_what_ran(store: &Store, clock: &Clock) -> Result<(), Error> {
    intercepting::tell_of_what_ran(store).await?;
    let interrupted = store.interrupt_open_executions(clock.now_ms()).await?;
    if interrupted > 0 {
        tracing::warn!(executions = interrupted, "Executions that a dead host left open were closed");
    }
    Ok(())
}

/// An executor, with what waited when the host stopped.
async fn executor(parts: ExecutorParts, admission: AdmissionSettings, queued: Queued) -> Result<Arc<Executor>, Error> {
    let executor = Executor::new(parts, admission);
    if queued == Queued::Begun {
        let waiting = executor.queue_again().await?;
        if waiting > 0 {
            tracing::info!(executions = waiting, "Executions that waited when the host stopped wait again");
        }
    }
    Ok(executor)
}

/// The settings with a program that is found from any directory, as compile workers have another one.
/// A program without a folder is looked for in PATH.
fn from_anywhere(mut compile: CompileSettings) -> Result<CompileSettings, Error> {
    if compile.program.components().count() > 1 {
        compile.program = std::path::absolute(compile.program).map_err(Error::internal)?;
    }
    Ok(compile)
}
