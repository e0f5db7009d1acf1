//! One container, from its start until it is gone.

use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::sandbox::Stream;

use super::argv::ARGS_VARIABLE;
use super::client::{Client, Kind};
use super::pump::{Sink, pump};

/// How long a container may take to end by itself once it is told to.
const GRACE: Duration = Duration::from_millis(400);
/// How long one try to remove it may take.
const REMOVING: Duration = Duration::from_millis(1500);
/// Tries to remove it.
const TRIES: usize = 3;
/// How long what it printed may take to arrive after its end.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The exit code of clients that could not do what they were told.
const NOT_DONE: i32 = 125;
/// What podman's monitor leaves in the working directory where memory ended a container.
const OUT_OF_MEMORY: &str = "oom";

/// One container, told to its engine.
pub(super) struct Job<'a> {
    pub(super) client: &'a Client,
    pub(super) name: &'a str,
    pub(super) argv: Vec<OsString>,
    /// A directory of its own, for the client to work in.
    pub(super) directory: &'a Path,
    /// What it reads.
    pub(super) stdin: Vec<u8>,
    /// The same for a variable, if that is to be set.
    pub(super) args_variable: Option<String>,
}

/// Who may end it before its time.
pub(super) struct Until<'a> {
    pub(super) deadline: Instant,
    /// Any of them.
    pub(super) cancel: [&'a CancellationToken; 2],
}

/// How it ended. It is gone by then, or the log says that it is not.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By itself, with this code.
    Exited(i32),
    /// The system ended it, or a process in it, for its memory.
    OutOfMemory(i32),
    /// At its deadline.
    Late,
    /// Somebody wanted that.
    Cancelled,
    /// It printed more than it may.
    Full,
    /// The engine did not start it, or lost it. The text is for the log.
    Lost(String),
}

impl Job<'_> {
    /// Runs it to its end and removes it.
    pub(super) async fn run(mut self, until: Until<'_>, sink: Arc<dyn Sink>) -> End {
        let mut child = match self.spawn() {
            Ok(child) => child,
            Err(error) => return End::Lost(error.to_string()),
        };
        let full = CancellationToken::new();
        let writing = child.stdin.take().map(|stdin| tokio::spawn(write(stdin, std::mem::take(&mut self.stdin))));
        let reading = Reading::of(&mut child, &sink, &full);
        let [first, second] = until.cancel;
        let status = tokio::select! {
            biased;
            status = child.wait() => Ok(status),
            () = full.cancelled() => Err(End::Full),
            () = first.cancelled() => Err(End::Cancelled),
            () = second.cancelled() => Err(End::Cancelled),
            () = sleep_until(until.deadline.into()) => Err(End::Late),
        };
        if let Some(writing) = writing {
            writing.abort();
        }
        match status {
            Ok(Ok(status)) => {
                let words = reading.end().await;
                let end = self.ended(status, &words).await;
                if !matches!(end, End::Lost(_)) {
                    sink.take(Stream::Stderr, &words);
                }
                if full.is_cancelled() { End::Full } else { end }
            }
            Ok(Err(error)) => {
                self.stop(&mut child).await;
                End::Lost(error.to_string())
            }
            Err(end) => {
                self.stop(&mut child).await;
                sink.take(Stream::Stderr, &reading.end().await);
                end
            }
        }
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let mut command = self.client.command(&self.argv);
        command.current_dir(self.directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(args) = &self.args_variable {
            command.env(ARGS_VARIABLE, args);
        }
        command.spawn()
    }

    /// What the end of the client says of the container's.
    async fn ended(&self, status: ExitStatus, words: &[u8]) -> End {
        let Some(code) = status.code() else {
            // Somebody ended the client, who knows what became of the container.
            self.remove().await;
            return End::Lost(format!("the client ended with {status}"));
        };
        match self.client.kind {
            Kind::Podman if code == NOT_DONE && !words.is_empty() => {
                self.remove().await;
                End::Lost(String::from_utf8_lossy(words).into_owned())
            }
            Kind::Podman if code != 0 && self.directory.join(OUT_OF_MEMORY).exists() => End::OutOfMemory(code),
            Kind::Podman => End::Exited(code),
            Kind::Docker => self.ended_in_docker(code, words).await,
        }
    }

    async fn ended_in_docker(&self, code: i32, words: &[u8]) -> End {
        let state = match code {
            0 => Ok("false".to_owned()),
            _ => {
                let question = ["inspect", "--type=container", "--format={{.State.OOMKilled}}", self.name];
                self.client.ask(&question, REMOVING).await
            }
        };
        self.remove().await;
        match state {
            // It could not even be made.
            _ if code == NOT_DONE && !words.is_empty() => End::Lost(String::from_utf8_lossy(words).into_owned()),
            Ok(word) if word == "true" => End::OutOfMemory(code),
            Ok(_) => End::Exited(code),
            Err(why) => End::Lost(format!("{why:?}; {}", String::from_utf8_lossy(words))),
        }
    }

    /// Ends a container that has not come to its end: first it is told, then it is killed.
    async fn stop(&self, child: &mut Child) {
        // The client passes it on.
        if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = timeout(GRACE, child.wait()).await;
        self.remove().await;
        let _ = child.start_kill();
        let _ = child.wait().await;
    }

    /// Removes the container, and looks whether it is gone.
    async fn remove(&self) {
        if !remove(self.client, self.name).await {
            let name = self.name;
            tracing::error!(container = name, "The container {name} could not be removed; the next start tries again");
        }
    }
}

/// Removes a container in whatever state it is; whether it is gone.
pub(super) async fn remove(client: &Client, name: &str) -> bool {
    let removal: &[&str] = match client.kind {
        Kind::Podman => &["rm", "--force", "--ignore", "--volumes", "--time=0", name],
        Kind::Docker => &["rm", "--force", "--volumes", name],
    };
    for _ in 0..TRIES {
        // Its answer says little: what died badly is removed by the second try only.
        let _ = client.ask(removal, REMOVING).await;
        match client.ask(&["ps", "--all", "--quiet", &format!("--filter=name=^{name}$")], REMOVING).await {
            Ok(found) if found.is_empty() => return true,
            Ok(_) => {}
            // It does not answer; more tries would only hold whoever waits.
            Err(_) => return false,
        }
    }
    false
}

async fn write(mut stdin: ChildStdin, bytes: Vec<u8>) {
    // Who does not read its arguments does not want them.
    let _ = stdin.write_all(&bytes).await;
    let _ = stdin.shutdown().await;
}

/// Both streams, being read.
struct Reading {
    out: Option<JoinHandle<Vec<u8>>>,
    err: Option<JoinHandle<Vec<u8>>>,
}

impl Reading {
    fn of(child: &mut Child, sink: &Arc<dyn Sink>, full: &CancellationToken) -> Self {
        let out = child.stdout.take().map(|out| pump(out, Stream::Stdout, Arc::clone(sink), full.clone()));
        let err = child.stderr.take().map(|err| pump(err, Stream::Stderr, Arc::clone(sink), full.clone()));
        Self { out: out.map(tokio::spawn), err: err.map(tokio::spawn) }
    }

    /// Waits for the rest, and gives what was held back. Whoever else holds the pipes is not waited for.
    async fn end(mut self) -> Vec<u8> {
        let mut held = Vec::new();
        let late = tokio::time::Instant::now() + LAST_WORDS;
        for reading in [&mut self.out, &mut self.err].into_iter().flatten() {
            match tokio::time::timeout_at(late, &mut *reading).await {
                Ok(bytes) => held.extend(bytes.unwrap_or_default()),
                Err(_) => reading.abort(),
            }
        }
        held
    }
}
