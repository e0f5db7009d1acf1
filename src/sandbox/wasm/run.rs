//! One attempt: a fresh instance, one call, and what came of it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use serde_json::value::RawValue;
use wasmtime::component::{ComponentType, Instance, Lift};
use wasmtime::{Engine, Store, UpdateDeadline, format_err};
use wasmtime_wasi::I32Exit;

use crate::egress::Guard;
use crate::model::{Code, Digest, Error, Limits, RunError, Usage, plain};
use crate::sandbox::{Ended, ReadyRun, SandboxCall, SandboxReply};

pub(super) use crate::sandbox::program::output_bytes;

use super::budget::{Budget, Share};
use super::components::{Entry, Loaded};
use super::idle::{Held, Idle, Kept, ReuseSettings, Whose};
use super::output::{CappedOutput, Overflow};
use super::pace::Paced;
use super::room::{Room, Taken};
use super::state::State;
use super::threads::{Handles, Threads};
use super::ticker::Ticker;
use super::turns::{Turn, Turns};
use super::{failures, handler, idle, preview1, preview3, program, typed};

/// What a guest may hand over in one call besides its output, in bytes.
const HOST_CALL_BYTES: usize = 64 << 10;
/// Fuel is known in steps of this much while a guest runs: that of a run which is stopped
/// from outside is counted short by at most one step, some milliseconds of work.
const FUEL_STEP: u64 = 10_000_000;
/// Most bytes of a guest's own error code and message.
const MAX_ERROR_CODE: usize = 64;
pub(super) const MAX_ERROR_MESSAGE: usize = 4096;

/// A skill's own `skill-error`.
#[derive(ComponentType, Lift)]
#[component(record)]
struct SkillError {
    code: String,
    message: String,
}

/// Runs guests on one engine.
pub(super) struct Guests {
    host: Arc<Host>,
    threads: Handles,
}

/// What guests on all engines share.
pub(super) struct Shared {
    threads: Threads,
    budget: Arc<Budget>,
    egress: Arc<Guard>,
    reuse: ReuseSettings,
}

/// What guests on one engine share.
struct Host {
    engine: Engine,
    ticker: Ticker,
    room: Room,
    /// Where one owner's runs could take all of it.
    turns: Option<Turns>,
    idle: Arc<Idle>,
    budget: Arc<Budget>,
    egress: Arc<Guard>,
}

/// A guest that can begin.
struct Guest {
    host: Arc<Host>,
    threads: Handles,
    loaded: Arc<Loaded>,
    call: SandboxCall,
}

/// How a call came back from the guest.
pub(super) type Called = wasmtime::Result<Result<String, RunError>>;

impl ReadyRun for Guest {
    fn begin(self: Box<Self>, ended: Ended) {
        let Self { host, threads, loaded, call } = *self;
        let (lumps, owner) = (Arc::clone(&loaded.lumps), call.context.owner.clone());
        threads.begin(owner, Box::pin(async move { ended(host.run(loaded, call).await) }), lumps);
    }
}

impl Host {
    /// Runs the call to its end, its deadline, or until it is cancelled.
    async fn run(&self, loaded: Arc<Loaded>, call: SandboxCall) -> Result<SandboxReply, Error> {
        let whose = Whose::of(&call).map(|whose| (whose, Arc::clone(&loaded)));
        if let Some(Kept { held, taken }) = self.idle.take(&call) {
            let _ticking = self.ticker.hold();
            let attempt = Attempt::again(held, loaded, call, Arc::clone(&self.egress))?;
            return Ok(self.keep(whose, taken, attempt.run().await));
        }
        // Given back when the instance is gone, also when this task is ended from outside.
        let (_turn, taken) = tokio::select! {
            biased;
            entered = self.enter(&loaded, &call) => entered?,
            () = call.cancel.cancelled() => return Ok(SandboxReply::without_run(failures::cancelled())),
        };
        let _ticking = self.ticker.hold();
        let held = (self.budget.share(&call.context.owner), Arc::clone(&self.egress));
        // The store is made and freed on one thread: memory that wanders between threads is dear.
        let ended = Attempt::new(&self.engine, loaded, call, held)?.run().await;
        Ok(self.keep(whose, taken, ended))
    }

    /// Waits for a turn of the owner's, where there are turns, and for room.
    async fn enter(&self, loaded: &Loaded, call: &SandboxCall) -> Result<(Option<Turn>, Taken), Error> {
        let turn = match &self.turns {
            Some(turns) => turns.take(&call.context.owner, call.depth, call.deadline).await?,
            None => None,
        };
        self.idle.make_room(&self.room, loaded.memories);
        let taken = if self.turns.is_some() && turn.is_none() {
            self.room.take_deeper(loaded.memories, call.depth, call.deadline).await?
        } else {
            self.room.take(loaded.memories, call.depth, call.deadline).await?
        };
        Ok((turn, taken))
    }

    /// Keeps the instance for the next call, if that may have it.
    fn keep(
        &self,
        whose: Option<(Whose, Arc<Loaded>)>,
        taken: Taken,
        (reply, held): (SandboxReply, Option<Held>),
    ) -> SandboxReply {
        if let (Some((whose, loaded)), Some(held)) = (whose, held) {
            self.idle.put((whose, &loaded), Kept { held, taken }, &self.room);
        }
        reply
    }
}

impl Shared {
    /// Starts the threads.
    pub(super) fn start(egress: Arc<Guard>, reuse: ReuseSettings) -> Result<Self, Error> {
        Ok(Self { threads: Threads::start()?, budget: Arc::new(Budget::of_this_machine()), egress, reuse })
    }
}

impl Guests {
    /// Guests on this engine, with what all share.
    pub(super) fn new(engine: Engine, ticker: Ticker, (room, turns): (Room, Option<Turns>), shared: &Shared) -> Self {
        let (budget, egress) = (Arc::clone(&shared.budget), Arc::clone(&shared.egress));
        let host = Host { engine, ticker, room, turns, idle: Idle::new(shared.reuse), budget, egress };
        Self { host: Arc::new(host), threads: shared.threads.handles() }
    }

    /// A call that can begin.
    pub(super) fn ready(&self, loaded: Arc<Loaded>, call: SandboxCall) -> impl ReadyRun + use<> {
        Guest { host: Arc::clone(&self.host), threads: self.threads.clone(), loaded, call }
    }

    /// Gives up what is kept of a component.
    pub(super) fn forget(&self, component: Digest) {
        self.host.idle.forget(component);
    }

    /// Median time in microseconds of `rounds` fresh instances, each with one call or none.
    pub(super) async fn time(
        &self,
        loaded: Arc<Loaded>,
        asked: SandboxCall,
        rounds: usize,
        with_call: bool,
    ) -> Result<f64, Error> {
        let taken = self.host.room.take(loaded.memories, asked.depth, asked.deadline).await?;
        let host = Arc::clone(&self.host);
        let task = self.threads.even.spawn(async move {
            let _taken = taken;
            let mut times = Vec::with_capacity(rounds);
            for _ in 0..rounds {
                let mut asked = asked.clone();
                let begun = Instant::now();
                let args = std::mem::take(&mut asked.args);
                let held = (host.budget.share(&asked.context.owner), Arc::clone(&host.egress));
                let mut attempt = Attempt::new(&host.engine, Arc::clone(&loaded), asked, held)?;
                let ended = if with_call {
                    call((&mut attempt.store, &mut None), &loaded, &attempt.call, args).await.map(drop)
                } else {
                    loaded.entry.instantiate(&mut attempt.store).await
                };
                ended.map_err(Error::internal)?;
                drop(attempt);
                times.push(begun.elapsed());
            }
            times.sort_unstable();
            Ok(times[rounds / 2].as_secs_f64() * 1e6)
        });
        task.await.map_err(Error::internal)?
    }
}

/// A store that is ready for its one call, and the parts of it that outlive it.
struct Attempt {
    store: Store<State>,
    loaded: Arc<Loaded>,
    call: SandboxCall,
    stdout: CappedOutput,
    stderr: CappedOutput,
    /// Its instance, once there is one; the calls that it had before.
    instance: Option<Instance>,
    calls: usize,
}

impl Attempt {
    fn new(
        engine: &Engine,
        loaded: Arc<Loaded>,
        call: SandboxCall,
        (share, egress): (Share, Arc<Guard>),
    ) -> Result<Self, Error> {
        let overflow = if loaded.entry.is_program() { Overflow::Ends } else { Overflow::Forgotten };
        let mut store = Store::new(engine, State::new(&call, (share, overflow), egress));
        store.limiter(|state| &mut state.limiter);
        preview3::bound(&mut store);
        store.epoch_deadline_callback(|store| {
            let in_time = Instant::now() < store.data().deadline;
            Ok(if in_time { UpdateDeadline::Yield(1) } else { UpdateDeadline::Interrupt })
        });
        Self::with((store, None, 0), loaded, call)
    }

    /// Another call of an instance that was kept.
    fn again(held: Held, loaded: Arc<Loaded>, call: SandboxCall, egress: Arc<Guard>) -> Result<Self, Error> {
        let Held { mut store, instance, calls } = held;
        store.data_mut().renew(&call, Overflow::Forgotten, egress);
        Self::with((store, Some(instance), calls), loaded, call)
    }

    /// Sets everything that is counted for one call.
    fn with(
        (mut store, instance, calls): (Store<State>, Option<Instance>, usize),
        loaded: Arc<Loaded>,
        call: SandboxCall,
    ) -> Result<Self, Error> {
        let (stdout, stderr) = (store.data().stdout.clone(), store.data().stderr.clone());
        if let Some(fuel) = call.limits.fuel.units() {
            store.set_fuel(fuel).map_err(Error::internal)?;
            // Compiled code keeps count by itself, and tells only when a step is used up.
            store.fuel_async_yield_interval(Some(FUEL_STEP)).map_err(Error::internal)?;
        }
        let handed_over = match &loaded.entry {
            Entry::Run(..) | Entry::Command(..) | Entry::Http(..) | Entry::AsyncHttp(..) => output_bytes(&call.limits),
            Entry::Typed(..) => typed::host_call_bytes(&call.limits),
            Entry::Module(_) => preview1::host_call_bytes(&call.limits),
        };
        store.set_hostcall_fuel(handed_over + HOST_CALL_BYTES);
        store.set_epoch_deadline(1);
        Ok(Self { store, loaded, call, stdout, stderr, instance, calls })
    }

    async fn run(mut self) -> (SandboxReply, Option<Held>) {
        let deadline = tokio::time::Instant::from_std(self.call.deadline);
        let args = std::mem::take(&mut self.call.args);
        let cancel = self.call.cancel.clone();
        let called = {
            let mut work = pin!(call((&mut self.store, &mut self.instance), &self.loaded, &self.call, args));
            let paced = Paced::new(self.call.limits.cpu_percent, work.as_mut());
            tokio::select! {
                biased;
                called = tokio::time::timeout_at(deadline, paced) => Some(called),
                () = cancel.cancelled() => None,
            }
        };
        let fuel_left = self.store.get_fuel().unwrap_or_default();
        let exit_code = exit_code(&called);
        let outcome = match called {
            None => Err(failures::cancelled()),
            Some(Err(_)) => Err(failures::timeout(&self.call)),
            // The timer ticks in milliseconds; an answer that came in between is late all the same.
            Some(_) if Instant::now() >= self.call.deadline => Err(failures::timeout(&self.call)),
            Some(Ok(Err(error))) => Err(failures::of(&error, &self.call, &self.store.data().limiter)),
            Some(Ok(Ok(Err(error)))) => Err(error),
            Some(Ok(Ok(Ok(text)))) => output(text, &self.call.limits),
        };
        let fuel = self.call.limits.fuel.units().unwrap_or_default().saturating_sub(fuel_left);
        let memory_peak_bytes = self.store.data().limiter.peak();
        let well = self.call.reuse.is_some() && self.is_well(&outcome);
        let (state, held) = idle::ended((self.store, &self.call), self.instance.filter(|_| well), self.calls + 1);
        let exit_code = state.exit_code.or(exit_code);
        let (mut denials, egress_bytes) = state.egress.end();
        denials.extend(state.files.end());
        let (stdout, stdout_truncated) = self.stdout.take();
        let (stderr, stderr_truncated) = self.stderr.take();
        let reply = SandboxReply {
            outcome,
            streams: crate::model::Streams { stdout, stderr, stdout_truncated, stderr_truncated },
            said: state.context.journal.take(),
            exit_code,
            usage: Usage { fuel, memory_peak_bytes, egress_bytes, ..Usage::default() },
            denials,
        };
        (reply, held)
    }

    /// Whether the instance came to no harm and holds nothing: it may have another call.
    fn is_well(&self, outcome: &Result<Box<RawValue>, RunError>) -> bool {
        let state = self.store.data();
        let returned = outcome.as_ref().map_or_else(|error| error.code == Code::SkillError, |_| true);
        returned && !state.limiter.refused() && !state.limiter.starved() && state.is_let_go()
    }
}

/// Makes the call that was `asked` for in a fresh instance, or in one that was kept.
async fn call(
    (store, kept): (&mut Store<State>, &mut Option<Instance>),
    loaded: &Loaded,
    asked: &SandboxCall,
    args: String,
) -> Called {
    // Each other way in a place of its own, so that this one carries none of them along.
    let (instance, run) = match &loaded.entry {
        Entry::Run(instance, run) => (instance, *run),
        Entry::Command(instance, run) => return Box::pin(program::command(store, (instance, *run), asked, args)).await,
        Entry::Module(instance) => return Box::pin(program::module(store, instance, asked, args)).await,
        Entry::Http(instance, handle) => return Box::pin(handler::call(store, (instance, *handle), asked, args)).await,
        Entry::AsyncHttp(instance, handle) => {
            return Box::pin(handler::call_async(store, (instance, *handle), asked, args)).await;
        }
        Entry::Typed(instance, functions) => {
            let function = functions.get(&*asked.function);
            let function = function.ok_or_else(|| format_err!("it has no function `{}`", asked.function))?;
            return Box::pin(typed::call(store, (instance, kept), function, (&args, &asked.limits))).await;
        }
    };
    let instance = idle::kept_or_fresh(store, instance, kept).await?;
    let run = instance.get_typed_func::<(String,), (Result<String, SkillError>,)>(&mut *store, run)?;
    Ok(run.call_async(store, (args,)).await?.0.map_err(|error| skill_error(&error)))
}

fn exit_code<E>(called: &Option<Result<Called, E>>) -> Option<i32> {
    match called {
        Some(Ok(Err(error))) => error.downcast_ref::<I32Exit>().map(|exit| exit.0),
        _ => None,
    }
}

/// Takes a guest's text as output: within its limit, and JSON.
fn output(text: String, limits: &Limits) -> Result<Box<RawValue>, RunError> {
    if text.len() > output_bytes(limits) {
        return Err(failures::output_too_large(limits));
    }
    RawValue::from_string(text)
        .map_err(|error| RunError::new(Code::InvalidOutput, format!("the output is not JSON: {error}")))
}

fn skill_error(error: &SkillError) -> RunError {
    RunError {
        code: Code::SkillError,
        message: plain(&error.message, MAX_ERROR_MESSAGE),
        detail: Some(json!({ "code": plain(&error.code, MAX_ERROR_CODE) })),
    }
}
