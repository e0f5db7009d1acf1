//! WebAssembly components under wasmtime.

mod bindings;
mod budget;
mod children;
mod compile;
mod components;
mod denials;
mod egress;
mod engine;
mod failures;
mod files;
mod handler;
mod idle;
mod keyvalue;
mod limiter;
mod logging;
mod output;
mod pace;
mod preview1;
mod preview3;
mod probe;
mod program;
mod room;
mod run;
mod settings;
mod slices;
mod sockets;
mod state;
mod threads;
mod ticker;
mod tiers;
mod turns;
mod typed;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::egress::Guard;
use crate::model::{Code, Digest, Error, Fuel, Limits};
use crate::telemetry::Telemetry;

use super::shape::Shape;
use super::{BoxFuture, PrepareRequest, Preparing, ReadyRun, SandboxCall, SandboxProvider};

use self::compile::Compiler;
use self::components::Entry;
use self::engine::Reset;
use self::tiers::Tiers;

pub use self::compile::{CompileSettings, THIS_PROGRAM, compile_worker, compile_worker_main, look_into};
pub use self::idle::ReuseSettings;
pub use self::probe::Freshness;

/// How many task polls a guest thread does between two looks at timers and wake-ups. Guests
/// give way once a tick, so this bounds how late a deadline is seen.
const EVENT_INTERVAL: u32 = 4;

/// How the WebAssembly sandbox works.
#[derive(Clone)]
pub struct WasmSettings {
    /// Directory for compiled code. Nobody else may write it.
    pub cache: PathBuf,
    /// Directory for unfinished files, on the same file system as `cache`.
    pub temporary: PathBuf,
    /// Most instances at one time.
    pub instances: u32,
    /// How components are compiled.
    pub compile: CompileSettings,
    /// Where compilations are counted.
    pub telemetry: Arc<Telemetry>,
    /// The guests' way out.
    pub egress: Arc<Guard>,
    /// How far instances are used again.
    pub reuse: ReuseSettings,
}

/// Runs WebAssembly components, each call in a fresh instance.
pub struct WasmSandbox {
    tiers: Tiers,
    compiler: Compiler,
    reset: Reset,
}

impl WasmSandbox {
    /// Builds the engine, the threads that guests run on, and the compile queue. Must be
    /// called on a tokio runtime.
    ///
    /// # Errors
    ///
    /// `unavailable` if the cache is not safe to load code from; `internal` if the engine
    /// or a thread cannot be made.
    pub fn new(settings: WasmSettings) -> Result<Self, Error> {
        let (tiers, reset) = Tiers::start(&settings)?;
        tracing::info!(sandbox.reset = %reset, "Guests run in fresh instances: {reset}");
        let compiler = Compiler::start(settings, Arc::clone(tiers.places()))?;
        Ok(Self { tiers, compiler, reset })
    }
}

impl SandboxProvider for WasmSandbox {
    fn prepare(&self, request: PrepareRequest) -> Result<Preparing, Error> {
        let Some(inspection) = self.tiers.inspection(request.digest, request.unmetered) else {
            return self.compiler.submit(request);
        };
        let (inspected, inspected_answer) = oneshot::channel();
        let (ready, ready_answer) = oneshot::channel();
        let _ = inspected.send(Ok(inspection));
        let _ = ready.send(Ok(()));
        Ok(Preparing { inspected: inspected_answer, ready: ready_answer })
    }

    fn is_prepared(&self, digest: Digest) -> bool {
        self.tiers.has_code(digest)
    }

    fn check(&self, digest: Digest) -> Result<(), Error> {
        self.tiers.find(digest, false).map(drop)
    }

    fn fits(&self, digest: Digest, function: &str, (args, limits): (&str, &Limits)) -> Result<(), Error> {
        let Ok((_, loaded)) = self.tiers.find(digest, limits.fuel == Fuel::Unlimited) else { return Ok(()) };
        match &loaded.entry {
            Entry::Typed(_, functions) => {
                functions.get(function).map_or(Ok(()), |function| function.takes(args, limits))
            }
            _ => Ok(()),
        }
    }

    fn ready(&self, call: SandboxCall) -> Result<Box<dyn ReadyRun>, Error> {
        let (tier, loaded) = self.tiers.find(call.digest, call.limits.fuel == Fuel::Unlimited)?;
        Ok(Box::new(tier.guests.ready(loaded, call)))
    }

    fn wit(&self, digest: Digest, file: PathBuf) -> BoxFuture<'_, Result<String, Error>> {
        Box::pin(async move {
            if self.tiers.plain().components.notes(digest).is_some_and(|notes| notes.shape == Shape::Module) {
                return Err(Error::new(Code::NotFound, "a core module has no WIT"));
            }
            self.compiler.wit(digest, &file).await
        })
    }

    fn forget(&self, digest: Digest) {
        self.tiers.forget(digest);
    }

    fn forget_all_but(&self, digests: &HashSet<Digest>) -> Result<(), Error> {
        self.tiers.plain().components.forget_all_but(digests).map_err(Error::internal)
    }
}
