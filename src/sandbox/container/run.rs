//! A call of a skill, as a container.

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::model::{Code, ContainerProgram, Error, Limits, RunError, Streams, Usage};
use crate::sandbox::endings::{cancelled, out_of_memory, output_too_large, timeout};
use crate::sandbox::{Ended, Journal, ReadyRun, SandboxCall, SandboxReply, Stream, program};

use super::argv::{self, Files, LEAST_MEMORY_MB, Plan};
use super::job::{End, Job, Until};
use super::pump::Sink;
use super::{Inner, RunDirectory};

/// Longest text that one variable can be, to the system; longer arguments are on stdin only.
const MAX_VARIABLE: usize = 120 << 10;
/// Seconds after its deadline at which an engine ends a container whose host is gone.
const BACKSTOP_S: u64 = 5;

/// One call that can begin.
pub(super) struct ContainerRun {
    inner: Arc<Inner>,
    program: Arc<ContainerProgram>,
    call: SandboxCall,
}

impl ContainerRun {
    pub(super) fn new(inner: Arc<Inner>, program: Arc<ContainerProgram>, call: SandboxCall) -> Self {
        Self { inner, program, call }
    }
}

impl ReadyRun for ContainerRun {
    fn begin(self: Box<Self>, ended: Ended) {
        let home = self.inner.home.clone();
        home.spawn(async move { ended(self.run().await) });
    }
}

/// What it prints goes into the journal of its run.
struct Printed {
    journal: Arc<Journal>,
    cap: usize,
}

impl Sink for Printed {
    fn take(&self, stream: Stream, bytes: &[u8]) -> bool {
        let whole = self.journal.print(stream, bytes, self.cap);
        // What is printed on stdout is the output, and more of it than may be is none.
        whole || stream == Stream::Stderr
    }
}

impl ContainerRun {
    async fn run(&self) -> Result<SandboxReply, Error> {
        let limits = &self.call.limits;
        if limits.memory_mb < LEAST_MEMORY_MB {
            return Ok(SandboxReply::without_run(out_of_memory(limits)));
        }
        if self.call.cancel.is_cancelled() {
            return Ok(SandboxReply::without_run(cancelled()));
        }
        let (engine, image) = self.inner.image(self.call.digest, &self.program).await?;
        let id = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("{}{id}", self.inner.prefix);
        let (directory, seccomp) = self.inner.directory(&name).map_err(Error::internal)?;
        let present = self.inner.live.enter(id).ok_or_else(|| Error::internal("two runs have one id"))?;
        let argv = argv::run(&engine.client, &self.plan((&name, &image), &seccomp))?;
        let job = Job {
            client: &engine.client,
            name: &name,
            argv,
            directory: directory.path(),
            stdin: self.call.args.clone().into_bytes(),
            args_variable: self.args_variable(),
        };
        let cap = usize::try_from(limits.output_bytes).unwrap_or(usize::MAX >> 1);
        let sink = Arc::new(Printed { journal: Arc::clone(&self.call.context.journal), cap });
        let until = Until { deadline: self.call.deadline, cancel: [&self.call.cancel, present.stop()] };
        let end = job.run(until, sink).await;
        tidy_up(directory).await;
        Ok(self.reply(end, cap))
    }

    fn args_variable(&self) -> Option<String> {
        let args = &self.call.args;
        (args.len() <= MAX_VARIABLE && !args.contains('\0')).then(|| args.clone())
    }

    fn plan<'a>(&'a self, (name, image): (&'a str, &'a str), seccomp: &'a Path) -> Plan<'a> {
        let limits = &self.call.limits;
        let left = self.call.deadline.saturating_duration_since(std::time::Instant::now());
        Plan {
            name,
            label: &self.inner.label,
            image,
            command: &self.program.command,
            env: self.env(),
            has_args_variable: self.args_variable().is_some(),
            cpu_percent: limits.cpu_percent,
            memory_mb: limits.memory_mb,
            backstop_s: left.as_secs() + BACKSTOP_S,
            files: Files::Empty,
            seccomp,
        }
    }

    /// What is declared, and nothing of ours.
    fn env(&self) -> &std::collections::BTreeMap<String, String> {
        const NONE: &std::collections::BTreeMap<String, String> = &std::collections::BTreeMap::new();
        self.call.powers.as_deref().map_or(NONE, |powers| powers.env())
    }

    fn reply(&self, end: End, cap: usize) -> SandboxReply {
        let (limits, journal) = (&self.call.limits, &self.call.context.journal);
        let exit_code = match &end {
            End::Exited(code) | End::OutOfMemory(code) => Some(*code),
            _ => None,
        };
        let outcome = match end {
            End::Exited(0) => journal.printed(Stream::Stdout, |printed| program::output(printed, limits)),
            End::Exited(code) => Err(program::exit_nonzero(code)),
            End::OutOfMemory(_) => Err(out_of_memory(limits)),
            End::Full => Err(output_too_large(limits)),
            End::Late => Err(timeout(&self.call)),
            End::Cancelled => Err(cancelled()),
            End::Lost(why) => Err(self.lost(&why)),
        };
        let (stdout, stdout_truncated) = journal.take_printed(Stream::Stdout, cap);
        let (stderr, stderr_truncated) = journal.take_printed(Stream::Stderr, cap);
        SandboxReply {
            outcome: outcome.and_then(|text| as_json(text, limits)),
            streams: Streams { stdout, stderr, stdout_truncated, stderr_truncated },
            said: journal.take(),
            exit_code,
            usage: Usage::default(),
            denials: Vec::new(),
        }
    }

    fn lost(&self, why: &str) -> RunError {
        let execution = self.call.context.execution;
        tracing::error!(execution.id = %execution, "The container engine did not carry out a run: {why}");
        self.inner.doubt(self.call.digest);
        let detail = "the container engine did not start the run, or lost it; the log of this host says why";
        RunError::new(Code::Unavailable, detail)
    }
}

fn as_json(text: String, limits: &Limits) -> Result<Box<serde_json::value::RawValue>, RunError> {
    serde_json::value::RawValue::from_string(text).map_err(|_| output_too_large(limits))
}

/// Removes what a run needed, on a thread that may wait.
pub(super) async fn tidy_up(directory: RunDirectory) {
    let _ = tokio::task::spawn_blocking(move || drop(directory)).await;
}

/// A token that nobody cancels.
pub(super) fn never() -> CancellationToken {
    CancellationToken::new()
}
