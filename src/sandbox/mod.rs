//! Where untrusted code runs.
//!
//! A [`SandboxProvider`] makes a component ready and runs it under limits. Registry and
//! executor see only this door; which engine stands behind it is its own affair.

mod children;
mod container;
mod endings;
mod fair;
mod hub;
mod journal;
mod keyvalue;
mod kinds;
mod powers;
mod printed;
mod program;
pub(crate) mod shape;
mod wasm;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::egress::{Credentials, NetworkGrant};
use crate::model::{
    Denial, Digest, Error, ExecutionId, Function, Grants, Handler, Limits, LimitsPatch, OwnerId, Parties, RunError,
    Said, Streams, Usage,
};
use crate::workspace::{WorkspaceGrant, Workspaces};

pub use self::children::{ChildCall, ChildReply, Children, MAX_CALL_DEPTH};
pub use self::container::{ContainerSandbox, ContainerSettings, Image, SandboxConfig, SandboxResult, SandboxRunner};
pub use self::fair::Fair;
pub use self::hub::Reader;
pub use self::journal::{Journal, Stream};
pub use self::keyvalue::{KeyPage, KeyValue, Versioned};
pub use self::kinds::Sandboxes;
pub use self::powers::Powers;
pub use self::wasm::{
    CompileSettings, Freshness, ReuseSettings, THIS_PROGRAM, WasmSandbox, WasmSettings, compile_worker,
    compile_worker_main, look_into,
};

/// A future behind an interface.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something uploaded that is to be made ready to run.
#[derive(Clone, Debug)]
pub struct PrepareRequest {
    /// On whose behalf; owners wait in turn.
    pub owner: OwnerId,
    /// How it is carried out.
    pub handler: Handler,
    /// SHA-256 of its bytes.
    pub digest: Digest,
    /// The file with its bytes.
    pub file: PathBuf,
    /// How many bytes.
    pub bytes: u64,
    /// To run without counting fuel. What is to run both ways is made ready twice.
    pub unmetered: bool,
}

/// What a look into a component tells.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Inspection {
    /// Name from its metadata.
    pub name: Option<String>,
    /// Version from its metadata.
    pub version: Option<String>,
    /// Description from its metadata.
    pub description: Option<String>,
    /// Its callables.
    pub functions: Vec<Function>,
    /// What it imports.
    pub imports: Vec<String>,
    /// Memory it needs to start, in bytes.
    pub minimum_memory_bytes: u64,
    /// What its author should know.
    pub warnings: Vec<String>,
    /// Whether it has async functions.
    #[serde(default)]
    pub(crate) concurrent: bool,
    /// How it is called. What was noted before there was a choice is a skill's.
    #[serde(default)]
    pub(crate) shape: self::shape::Shape,
}

impl Inspection {
    /// Whether one instance can have one call after the other.
    pub(crate) fn is_reusable(&self) -> bool {
        use self::shape::Shape;
        matches!(self.shape, Shape::Skill | Shape::Typed(_)) && !self.concurrent
    }
}

/// Work on making something ready. Dropping the receivers does not stop it.
#[derive(Debug)]
pub struct Preparing {
    /// Answers first: what is in it, or why it cannot run here.
    pub inspected: oneshot::Receiver<Result<Inspection, Error>>,
    /// Answers last: that it can run, or why not.
    pub ready: oneshot::Receiver<Result<(), Error>>,
}

/// What a guest may ask about the run it is in.
#[derive(Debug)]
pub struct RunContext {
    /// The execution.
    pub execution: ExecutionId,
    /// The skill as `name@version`.
    pub skill: Arc<str>,
    /// Whose skill it is.
    pub skill_owner: OwnerId,
    /// Whose run it is. The guest sees its SHA-256 only.
    pub owner: OwnerId,
    /// The caller's session.
    pub session: Option<String>,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When the run is ended, in milliseconds since the Unix epoch.
    pub deadline_ms: i64,
    /// What it says meanwhile, in this attempt and in others.
    pub journal: Arc<Journal>,
    /// What interceptors added, as a JSON object.
    pub added: Option<Arc<str>>,
}

impl RunContext {
    /// Whose skill it is and whose run.
    pub fn parties(&self) -> Parties<'_> {
        Parties { skill: &self.skill, skill_owner: &self.skill_owner, owner: &self.owner }
    }
}

/// What a deadline ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// This attempt (`limits.attemptTimeoutMs`).
    Attempt,
    /// The whole execution (`limits.timeoutMs`).
    Whole,
}

/// One attempt to run one function.
#[derive(Clone, Debug)]
pub struct SandboxCall {
    /// The component.
    pub digest: Digest,
    /// The function.
    pub function: Arc<str>,
    /// The arguments as JSON text.
    pub args: String,
    /// What it may use up.
    pub limits: Limits,
    /// When it is ended.
    pub deadline: Instant,
    /// Which limit that is.
    pub ends: Ends,
    /// Ends it before that, with a reply that says what it used.
    pub cancel: CancellationToken,
    /// What it may know.
    pub context: Arc<RunContext>,
    /// Where it may connect to.
    pub network: Arc<NetworkGrant>,
    /// How far it may go in its owner's files.
    pub workspace: WorkspaceGrant,
    /// Where these lie. Without it there are none.
    pub workspaces: Option<Arc<Workspaces>>,
    /// What its requests carry.
    pub credentials: Arc<Credentials>,
    /// What else it may use; nothing for most.
    pub powers: Option<Arc<dyn Powers>>,
    /// How many runs wait for it; 0 for one that a request started.
    pub depth: usize,
    /// What must be the same for it to get the instance of a call before; none gets a fresh one.
    pub reuse: Option<Digest>,
}

/// How an attempt ended, by itself or by a limit.
#[derive(Clone, Debug)]
pub struct SandboxReply {
    /// The output, or why there is none.
    pub outcome: Result<Box<RawValue>, RunError>,
    /// What it printed.
    pub streams: Streams,
    /// What it logged and reported.
    pub said: Said,
    /// Exit code, where it called exit.
    pub exit_code: Option<i32>,
    /// What it used.
    pub usage: Usage,
    /// What it was not given.
    pub denials: Vec<Denial>,
}

impl SandboxReply {
    /// The reply for a guest that did nothing.
    pub(crate) fn without_run(error: RunError) -> Self {
        Self {
            outcome: Err(error),
            streams: Streams::default(),
            said: Said::default(),
            exit_code: None,
            usage: Usage::default(),
            denials: Vec::new(),
        }
    }
}

/// A call that can begin at once.
pub trait ReadyRun: Send {
    /// Runs the function to its end, or to a limit, on the provider's own threads; returns at
    /// once. `ended` hears there how it went: `unavailable` if the guest could not be started
    /// at all, `internal` for a bug; a guest that fails, or breaks a limit, is an `Ok` whose
    /// outcome says so. If those threads end before the guest, `ended` is dropped.
    fn begin(self: Box<Self>, ended: Ended);
}

/// Who hears how a run ended.
pub type Ended = Box<dyn FnOnce(Result<SandboxReply, Error>) + Send>;

/// A place where untrusted code runs.
pub trait SandboxProvider: Send + Sync {
    /// Fixes what a handler leaves open and what could mean something else later, before it is
    /// registered with these grants and limits.
    ///
    /// # Errors
    ///
    /// `grant_unsupported`, `image_not_allowed` and `invalid_manifest` for what cannot run here,
    /// with its place.
    fn settle<'a>(
        &'a self,
        handler: Handler,
        asked: (&'a Grants, &'a LimitsPatch),
    ) -> BoxFuture<'a, Result<Handler, Error>> {
        let _ = asked;
        Box::pin(std::future::ready(Ok(handler)))
    }

    /// Looks whether what runs elsewhere could run now; nothing where that is never in question.
    ///
    /// # Errors
    ///
    /// `unavailable` with the reason and what to do; `image_not_allowed`.
    fn look<'a>(&'a self, handler: &'a Handler) -> Option<BoxFuture<'a, Result<(), Error>>> {
        let _ = handler;
        None
    }

    /// Starts to make something ready; also after a restart, when it costs little.
    ///
    /// # Errors
    ///
    /// `overloaded` if too much waits already. What is wrong with the component itself
    /// comes through the [`Preparing`].
    fn prepare(&self, request: PrepareRequest) -> Result<Preparing, Error>;

    /// Whether something was prepared before, so that it can run at once with its fuel counted.
    fn is_prepared(&self, digest: Digest) -> bool;

    /// Loads what was prepared, so that a fault in it shows now and not at its first run.
    ///
    /// # Errors
    ///
    /// `compiling` if it is not ready, `invalid_component` if it does not fit this host.
    fn check(&self, digest: Digest) -> Result<(), Error>;

    /// Whether a function takes these arguments, as far as its types say so; whatever else may be in
    /// the way is left to the call.
    ///
    /// # Errors
    ///
    /// `invalid_args`, with a pointer to the first value that does not fit.
    fn fits(&self, digest: Digest, function: &str, args: (&str, &Limits)) -> Result<(), Error>;

    /// Loads what a call needs.
    ///
    /// # Errors
    ///
    /// `compiling` or `invalid_component` if it cannot be loaded.
    fn ready(&self, call: SandboxCall) -> Result<Box<dyn ReadyRun>, Error>;

    /// The WIT of a component, as text.
    ///
    /// # Errors
    ///
    /// `not_found` for what has none, `not_supported` where it cannot be printed, `overloaded` if
    /// others wait.
    fn wit(&self, digest: Digest, file: PathBuf) -> BoxFuture<'_, Result<String, Error>>;

    /// Forgets a component that no skill needs any more.
    fn forget(&self, digest: Digest);

    /// Forgets everything that was prepared, but these.
    ///
    /// # Errors
    ///
    /// `internal` if the disk does not play along.
    fn forget_all_but(&self, digests: &HashSet<Digest>) -> Result<(), Error>;
}
