//! Compiling, in processes of their own that can be killed.
//!
//! A compiler fed by strangers can be made to eat all memory or to run for hours. So each
//! component is looked into and compiled by a child with limits on memory and time; a host
//! that loses one has lost nothing.

mod bond;
mod inspect;
mod module;
mod print;
mod protocol;
mod queue;
mod typed;
mod weight;
mod worker;
mod worlds;

#[cfg(test)]
mod properties;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Child;

use crate::model::{Code, Digest, Error};
use crate::sandbox::{Inspection, PrepareRequest, Preparing};
use crate::telemetry::Telemetry;

use super::WasmSettings;
use super::engine::Kind;
use super::tiers::Places;

use self::print::Printer;
use self::protocol::Message;
use self::queue::{Job, Queue, Serves};

#[cfg(test)]
pub(super) use self::typed::schema_of;

pub(super) use self::inspect::RUN;
pub(super) use self::worker::reason;

pub use self::worker::{THIS_PROGRAM, compile_worker, compile_worker_main};

/// A look into a component whose bytes come from whoever runs this host: those of others are
/// looked into by a worker.
///
/// # Errors
///
/// `invalid_component`, with what is wrong.
pub fn look_into(bytes: &[u8]) -> Result<Inspection, Error> {
    self::inspect::inspect(bytes).map_err(|why| Error::new(Code::InvalidComponent, why))
}

/// How components are compiled.
#[derive(Clone, Debug)]
pub struct CompileSettings {
    /// The program that is run as `PROGRAM compile-worker …`: what [`compile_worker`] gives, or
    /// another one that calls it, such as `skillvisor`.
    pub program: PathBuf,
    /// Address space of one worker, in MiB.
    pub memory_mb: u64,
    /// Processor time of one worker, all its threads together. By the clock it may take five times as
    /// long: a worker gives way to the host.
    pub timeout: Duration,
    /// Workers at a time; one more is kept for an owner who has none at work.
    pub workers: usize,
}

/// How many times its processor time a worker may take by the clock. What a component costs does not
/// depend on what else the machine does, and so neither does the verdict on it.
const CLOCK: u32 = 5;

/// Most bytes that a worker may say.
const MAX_REPORT: u64 = 4 << 20;

/// The queue of components that are to be compiled, and those who work on it.
pub(super) struct Compiler {
    queue: Arc<Queue>,
    printer: Printer,
}

impl Compiler {
    /// Starts as many workers' keepers as the settings say. `places` is where code goes.
    ///
    /// # Errors
    ///
    /// `internal` if that cannot be made.
    pub(super) fn start(settings: WasmSettings, places: Arc<Places>) -> Result<Self, Error> {
        let WasmSettings { compile: settings, temporary, telemetry, .. } = settings;
        let queue = Arc::new(Queue::new(Arc::clone(&telemetry)));
        let all = std::iter::repeat_n(Serves::All, settings.workers.max(1));
        for serves in all.chain([Serves::Newcomers]) {
            let keeper = Keeper {
                serves,
                queue: Arc::clone(&queue),
                settings: settings.clone(),
                places: Arc::clone(&places),
                temporary: temporary.clone(),
                telemetry: Arc::clone(&telemetry),
            };
            tokio::spawn(keeper.keep());
        }
        Ok(Self { queue, printer: Printer::new(settings, places.directory(Kind::PLAIN)?, temporary) })
    }

    /// The WIT of the component in `file`.
    ///
    /// # Errors
    ///
    /// `not_supported` for a component whose WIT cannot be printed; `overloaded` if others wait.
    pub(super) async fn wit(&self, digest: Digest, file: &Path) -> Result<String, Error> {
        self.printer.print(digest, file).await
    }

    /// Lines a component up.
    ///
    /// # Errors
    ///
    /// `overloaded` if too many wait.
    pub(super) fn submit(&self, request: PrepareRequest) -> Result<Preparing, Error> {
        let (job, preparing) = Job::new(request);
        self.queue.push(job)?;
        Ok(preparing)
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Takes jobs from the queue, one after another, and has a worker do each.
struct Keeper {
    serves: Serves,
    queue: Arc<Queue>,
    settings: CompileSettings,
    places: Arc<Places>,
    temporary: PathBuf,
    telemetry: Arc<Telemetry>,
}

impl Keeper {
    async fn keep(self) {
        while let Some(mut running) = self.queue.pop(self.serves).await {
            let output = self.temporary.join(format!("{}.cwasm", uuid::Uuid::now_v7()));
            let begun = Instant::now();
            let result = match running.job() {
                Some(job) => self.compile(job, &output).await,
                None => Ok(()),
            };
            let outcome = result.as_ref().map_or_else(|error| error.code.as_str(), |()| "ready");
            self.telemetry.compile.finished(outcome, begun.elapsed());
            if let Err(error @ Error { source: Some(_), .. }) = &result {
                // Who waits for the component learns only that something broke.
                tracing::error!("A component could not be compiled: {error:?}");
            }
            // Gone already if all went well.
            let _ = tokio::fs::remove_file(&output).await;
            running.finish(result);
        }
    }

    async fn compile(&self, job: &mut Job, output: &Path) -> Result<(), Error> {
        if let Some(inspection) = self.compiled(job) {
            job.inspected(Ok(inspection));
            return Ok(());
        }
        let files = (job.request.file.as_path(), output);
        let task = worker::task(self.places.hash(Kind::PLAIN)?, job.request.unmetered);
        let mut child = worker::spawn(&self.settings, files, (&job.request.digest.hex(), &task))?;
        let pid = child.id().unwrap_or_default();
        tracing::info!(worker.pid = pid, component.digest = %job.request.digest, "Compile worker {pid} started");
        let work = tokio::time::timeout(self.settings.timeout * CLOCK, self.follow(job, &mut child));
        let inspection = match work.await {
            Ok(result) => result?,
            Err(_) => {
                let _ = child.kill().await;
                tracing::warn!(worker.pid = pid, "Compile worker {pid} came to no end on this busy machine");
                let detail = "the machine has too little time to compile it; try again";
                return Err(Error::new(Code::Unavailable, detail).retry_after(30));
            }
        };
        let kind = Kind { unmetered: job.request.unmetered, concurrent: inspection.concurrent };
        let directory = self.places.directory(kind)?;
        keep_code((directory, job.request.digest), &inspection, output).await.map_err(Error::internal)
    }

    /// What was found in the component, if another job for the same bytes has compiled them
    /// while this one waited.
    fn compiled(&self, job: &Job) -> Option<Inspection> {
        let name = PathBuf::from(job.request.digest.hex());
        Kind::of(job.request.unmetered).into_iter().find_map(|kind| {
            let directory = self.places.path(kind).ok()?;
            let cache = std::fs::File::open(&directory).ok()?;
            crate::files::open_own(&cache, &name.with_extension("cwasm")).ok()?;
            let notes = std::fs::read(directory.join(&name).with_extension("json")).ok()?;
            serde_json::from_slice(&notes).ok()
        })
    }

    /// Reads what the worker says, to its end.
    async fn follow(&self, job: &mut Job, child: &mut Child) -> Result<Inspection, Error> {
        let stdout = child.stdout.take().ok_or_else(|| Error::internal("the worker has no stdout"))?;
        let mut lines = BufReader::new(stdout.take(MAX_REPORT)).lines();
        let pid = child.id().unwrap_or_default();
        let mut inspection = None;
        let mut done = false;
        while let Some(line) = lines.next_line().await.map_err(Error::internal)? {
            match serde_json::from_str(&line).map_err(|_| no_worker())? {
                Message::Inspected(found) => {
                    inspection = Some((*found).clone());
                    job.inspected(Ok(*found));
                }
                Message::Compiled => done = true,
                Message::Failed { detail } => return Err(Error::new(Code::InvalidComponent, detail)),
                Message::Broken { detail } => {
                    return Err(Error::internal(format!("the compile worker panicked: {detail}")));
                }
                Message::Unfit { detail } => {
                    let detail = format!("the compile worker cannot work: {detail}");
                    return Err(Error::new(Code::Unavailable, detail));
                }
            }
        }
        let status = child.wait().await.map_err(Error::internal)?;
        match inspection {
            Some(inspection) if done && status.success() => Ok(inspection),
            // A worker that comes to an end of its own has said something.
            None if status.code().is_some() => Err(no_worker()),
            _ => {
                let digest = job.request.digest;
                tracing::warn!(worker.pid = pid, %status, component.digest = %digest, "Compile worker {pid} was killed");
                Err(self.died(status))
            }
        }
    }

    fn died(&self, status: std::process::ExitStatus) -> Error {
        use std::os::unix::process::ExitStatusExt;
        let [cpu, kill] = [rustix::process::Signal::XCPU, rustix::process::Signal::KILL].map(|s| s.as_raw());
        let detail = match status.signal() {
            Some(signal) if signal == cpu => return self.too_slow(),
            // None of its own limits ends a worker so: the machine did, or somebody on it, and
            // that says nothing about the component.
            Some(signal) if signal == kill => {
                let detail = "the compile worker was killed from outside, as a machine without memory does; try again";
                return Error::new(Code::Unavailable, detail).retry_after(30);
            }
            Some(_) => format!(
                "compiling it took more than {} MiB of memory (setting compile.memory_mb) or crashed the compiler",
                self.settings.memory_mb
            ),
            None => return Error::internal(format!("the compile worker ended with {status} and no word")),
        };
        Error::new(Code::InvalidComponent, detail)
    }

    fn too_slow(&self) -> Error {
        let detail = format!(
            "compiling it took more than {} ms of processor time (setting compile.timeout_ms)",
            self.settings.timeout.as_millis()
        );
        Error::new(Code::InvalidComponent, detail)
    }
}

/// Moves the code to where it is looked for: whole or not at all, also after a power cut.
async fn keep_code(
    (directory, digest): (PathBuf, Digest),
    inspection: &Inspection,
    output: &Path,
) -> std::io::Result<()> {
    let name = directory.join(digest.hex());
    let notes = output.with_extension("json");
    let text = serde_json::to_vec(inspection)?;
    let output = output.to_owned();
    tokio::task::spawn_blocking(move || {
        crate::files::write_durably(&notes, &text)?;
        std::fs::rename(&notes, name.with_extension("json"))?;
        std::fs::rename(&output, name.with_extension("cwasm"))?;
        crate::files::sync_directory(&directory)
    })
    .await?
}

/// The error for a program that was started as worker and does not behave as one.
fn no_worker() -> Error {
    let detail = "the program that should compile is no compile worker: it must call \
                  `skillvisor::compile_worker` before anything else";
    Error::new(Code::Unavailable, detail)
}
