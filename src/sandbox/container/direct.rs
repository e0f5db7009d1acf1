//! Containers for operators and embedders, without a skill around them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

use crate::model::{Code, Error, ImageRef};
use crate::sandbox::Stream;
use crate::sandbox::printed::{Printed, clean};

use super::argv::{self, Files, LEAST_MEMORY_MB, Plan, require_sane_env};
use super::images::{self, Image};
use super::job::{End, Job, Until};
use super::pump::Sink;
use super::run::{never, tidy_up};
use super::{Inner, absent};

/// Most that is kept of what it prints, of each stream, in bytes.
const PRINTED: usize = 1 << 20;
/// Size of a workspace that can be written, in MiB.
const SCRATCH_MB: u64 = 64;

/// What one direct run may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Share of one processor in percent.
    pub cpu_limit: u64,
    /// Memory in MiB, of which there is no more in swap.
    pub memory_limit: u64,
    /// Wall-clock time.
    pub timeout: Duration,
    /// Whether it gets a network. No engine gives one that is held to rules: it is refused.
    pub network_enabled: bool,
    /// Whether `/workspace` is empty for good; else it can be written, and is gone afterwards. The
    /// rest is read-only either way.
    pub read_only: bool,
    /// Its id, to end it by from elsewhere; a new one if there is none.
    pub id: Option<String>,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        let timeout = Duration::from_secs(30);
        Self { cpu_limit: 100, memory_limit: 256, timeout, network_enabled: false, read_only: true, id: None }
    }
}

/// What came of a direct run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxResult {
    /// Its id.
    pub id: String,
    /// What it printed, as clean text.
    pub stdout: String,
    /// The same of stderr.
    pub stderr: String,
    /// Whether that is not all of stdout.
    pub stdout_truncated: bool,
    /// Whether that is not all of stderr.
    pub stderr_truncated: bool,
    /// Its exit code; none where it was killed.
    pub exit_code: Option<i32>,
    /// From its start until it was gone, in milliseconds.
    pub duration_ms: u64,
    /// Whether the host ended it: at its timeout, or because somebody wanted that.
    pub killed: bool,
    /// Whether the system ended it for its memory.
    pub out_of_memory: bool,
}

/// Runs commands in images, under the limits of [`SandboxConfig`] and all that container skills are
/// held to. It writes no audit: that is for whoever runs the host.
#[derive(Clone)]
pub struct SandboxRunner {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Kept([Mutex<Printed>; 2]);

impl Sink for Kept {
    fn take(&self, stream: Stream, bytes: &[u8]) -> bool {
        self.0[stream as usize].lock().keep(bytes, PRINTED);
        true
    }
}

impl Kept {
    fn text(&self, stream: Stream) -> (String, bool) {
        let printed = self.0[stream as usize].lock();
        let (text, cut) = clean(&printed.bytes, PRINTED);
        (text, cut || printed.truncated)
    }
}

impl SandboxRunner {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    /// Runs `command` in `image` to its end, or to a limit. Dropping the future leaves the container
    /// to its timeout; [`SandboxRunner::kill`] ends it.
    ///
    /// # Errors
    ///
    /// Before anything is started: `invalid_manifest` for what is no image, `image_not_allowed`,
    /// `malformed` for variables and limits that cannot be, `grant_unsupported` for a network,
    /// `conflict` for an id that runs. `unavailable` without an engine or the image.
    pub async fn run(
        &self,
        image: &str,
        command: &[String],
        env: &BTreeMap<String, String>,
        config: SandboxConfig,
    ) -> Result<SandboxResult, Error> {
        let image: ImageRef = image.parse()?;
        require_sane(command, env, &config)?;
        self.inner.policy().require_allowed(&image)?;
        let engine = self.inner.engines.get().await?;
        let found = self.inner.find(&engine, &image.whole()).await?.ok_or_else(|| absent(&image, false))?;
        let id = config.id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
        let present = self.inner.live.enter(id.clone());
        let present = present.ok_or_else(|| Error::new(Code::Conflict, "a container with this id runs"))?;
        let name = format!("{}{id}", self.inner.prefix);
        let (directory, seccomp) = self.inner.directory(&name).map_err(Error::internal)?;
        let plan = Plan {
            name: &name,
            label: &self.inner.label,
            image: &found,
            command,
            env,
            has_args_variable: false,
            cpu_percent: config.cpu_limit,
            memory_mb: config.memory_limit,
            backstop_s: config.timeout.as_secs() + 5,
            files: if config.read_only { Files::Empty } else { Files::Scratch(SCRATCH_MB) },
            seccomp: &seccomp,
        };
        let argv = argv::run(&engine.client, &plan)?;
        let client = &engine.client;
        let job =
            Job { client, name: &name, argv, directory: directory.path(), stdin: Vec::new(), args_variable: None };
        let (began, kept, never) = (Instant::now(), Arc::new(Kept::default()), never());
        let until = Until { deadline: began + config.timeout, cancel: [present.stop(), &never] };
        let end = job.run(until, Arc::<Kept>::clone(&kept)).await;
        let took = began.elapsed();
        tidy_up(directory).await;
        self.result((id, end), &kept, took)
    }

    fn result(&self, (id, end): (String, End), kept: &Kept, took: Duration) -> Result<SandboxResult, Error> {
        if let End::Lost(why) = &end {
            tracing::error!("The container engine did not carry out a run: {why}");
            self.inner.engines.doubt();
            let detail = "the container engine did not start it, or lost it; the log says why";
            return Err(Error { source: Some(why.clone().into()), ..Error::new(Code::Unavailable, detail) });
        }
        let (stdout, stdout_truncated) = kept.text(Stream::Stdout);
        let (stderr, stderr_truncated) = kept.text(Stream::Stderr);
        let exit_code = match end {
            End::Exited(code) | End::OutOfMemory(code) => Some(code),
            _ => None,
        };
        let (killed, out_of_memory) = (exit_code.is_none(), matches!(end, End::OutOfMemory(_)));
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Ok(SandboxResult {
            id,
            stdout,
            stderr,
            stdout_truncated,
            stderr_truncated,
            exit_code,
            duration_ms,
            killed,
            out_of_memory,
        })
    }

    /// Ends a container, of a skill too, by its id; whether one ran, and it is gone.
    pub async fn kill(&self, id: &str) -> bool {
        self.inner.live.kill(id).await
    }

    /// Ends all containers of this host, and waits until they are gone; how many there were.
    pub async fn kill_all(&self) -> usize {
        self.inner.live.kill_all().await
    }

    /// Whether a container with this id runs.
    pub fn is_running(&self, id: &str) -> bool {
        self.inner.live.contains(id)
    }

    /// How many containers of this host run.
    pub fn running_count(&self) -> usize {
        self.inner.live.count()
    }

    /// The engine and its version, asked anew.
    ///
    /// # Errors
    ///
    /// `unavailable`, with the reason and what to do.
    pub async fn engine(&self) -> Result<String, Error> {
        self.inner.engines.doubt();
        let engine = self.inner.engines.get().await?;
        Ok(format!("{} {}", engine.client.kind.program(), engine.version))
    }

    /// Fetches an image, and gives its id.
    ///
    /// # Errors
    ///
    /// `image_not_allowed`; `invalid_manifest` for what is no image or none that can be had;
    /// `unavailable`.
    pub async fn pull(&self, image: &str) -> Result<Image, Error> {
        let image: ImageRef = image.parse()?;
        self.inner.policy().require_allowed(&image)?;
        let engine = self.inner.engines.get().await?;
        let id = images::pull(&engine.client, self.inner.policy(), &image).await?;
        Ok(Image { name: image.whole(), id })
    }

    /// The images that this machine has.
    ///
    /// # Errors
    ///
    /// `unavailable`.
    pub async fn images(&self) -> Result<Vec<Image>, Error> {
        images::list(&self.inner.engines.get().await?.client).await
    }
}

fn require_sane(command: &[String], env: &BTreeMap<String, String>, config: &SandboxConfig) -> Result<(), Error> {
    let malformed = |detail: &str| Err(Error::new(Code::Malformed, detail));
    require_sane_env(env)?;
    if config.network_enabled {
        let detail = "a container gets no network: no engine here gives one that is held to rules";
        return Err(Error::new(Code::GrantUnsupported, detail));
    }
    if command.iter().any(|argument| argument.contains('\0')) || command.first().is_some_and(String::is_empty) {
        return malformed("the command begins with an empty text, or has a NUL in it");
    }
    if config.cpu_limit == 0 || config.memory_limit < LEAST_MEMORY_MB || config.timeout.is_zero() {
        return malformed("a container needs a share of a processor, 6 MiB of memory and some time");
    }
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    match &config.id {
        Some(id) if id.is_empty() || id.len() > 64 || !id.bytes().all(legal) => {
            malformed("an id is 1 to 64 of a-z, 0-9 and `-`")
        }
        _ => Ok(()),
    }
}
