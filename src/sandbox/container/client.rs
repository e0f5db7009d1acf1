//! An engine's own client, as a child process: argv only, never a shell, and of our environment only
//! what it reads itself.

use std::ffi::{OsStr, OsString};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::model::{Code, Error};

/// What engines' clients read of the environment. Nothing else of ours is handed on: it may hold keys.
const VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS",
    "DOCKER_TLS_VERIFY",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINERS_REGISTRIES_CONF",
    "REGISTRY_AUTH_FILE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
/// How long an answer may take that needs nothing but the engine.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The engines there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Podman,
    Docker,
}

impl Kind {
    /// The name of its client.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

/// The client of an engine.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) kind: Kind,
    pub(super) runtime: Option<String>,
    environment: Vec<(OsString, OsString)>,
}

/// Why a client gave no answer. The text is for the log: engines tell of the machine.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// There is no such program.
    NotInstalled,
    /// It took too long.
    Late,
    /// It said no.
    Refused(String),
}

impl NoAnswer {
    /// The same for a caller, who learns nothing of the machine.
    pub(super) fn error(&self, kind: Kind) -> Error {
        let program = kind.program();
        let detail = match self {
            Self::NotInstalled => format!("{program} is not installed on this host"),
            Self::Late => format!("{program} does not answer on this host"),
            Self::Refused(_) => format!("{program} refused to work; the log of this host says why"),
        };
        Error::new(Code::Unavailable, detail).retry_after(10)
    }
}

impl Client {
    /// A client of this kind, which may not be there.
    pub(super) fn new(kind: Kind, runtime: Option<String>) -> Self {
        let known = |name: &OsStr| name.to_str().is_some_and(|name| VARIABLES.contains(&name));
        let environment = std::env::vars_os().filter(|(name, _)| known(name)).collect();
        Self { kind, runtime, environment }
    }

    /// A command of the client. It ends with whoever waits for it, in a process group of its own: a
    /// Ctrl-C of our terminal is not its affair.
    pub(super) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(self.kind.program());
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        if self.kind == Kind::Podman {
            // Its warnings would stand among what the skill prints.
            command.arg("--log-level=error");
        }
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).process_group(0);
        command
    }

    /// What a command prints.
    pub(super) async fn ask(&self, arguments: &[&str], patience: Duration) -> Result<String, NoAnswer> {
        let output = self.output(arguments, patience).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(NoAnswer::Refused(text(&output.stderr))) }
    }

    async fn output(&self, arguments: &[&str], patience: Duration) -> Result<Output, NoAnswer> {
        let output = timeout(patience, self.command(arguments).output()).await.map_err(|_| NoAnswer::Late)?;
        output.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => NoAnswer::NotInstalled,
            _ => NoAnswer::Refused(error.to_string()),
        })
    }

    /// The version of the engine itself, which shows that it is there and not only its client.
    pub(super) async fn version(&self) -> Result<String, NoAnswer> {
        let question: &[&str] = match self.kind {
            Kind::Podman => &["info", "--format", "{{.Version.Version}}"],
            Kind::Docker => &["version", "--format", "{{.Server.Version}}"],
        };
        let version = self.ask(question, PATIENCE).await?;
        if version.is_empty() { Err(NoAnswer::Refused("it has no version".to_owned())) } else { Ok(version) }
    }
}
