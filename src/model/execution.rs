//! One run of a skill: what was asked, what came of it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{
    Code, Decision, Digest, EarlierAttempt, Error, ExecutionId, Key, KeyId, LimitsPatch, OwnerId, RetryPatch, Said,
    SkillId, SkillRef, StrictJson,
};

/// The way a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Door {
    /// The HTTP API.
    Http,
    /// The library, without HTTP.
    Library,
    /// The Model Context Protocol.
    Mcp,
}

impl Door {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Library => "library",
            Self::Mcp => "mcp",
        }
    }
}

impl FromStr for Door {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = [Self::Http, Self::Library, Self::Mcp].into_iter().find(|door| door.as_str() == text);
        found.ok_or_else(|| Error::new(Code::Malformed, "no such door"))
    }
}

/// Who asks: a key that has been checked, and the door it came through.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The key, as it was when the request came in.
    pub key: Arc<Key>,
    /// The door.
    pub door: Door,
}

impl Caller {
    /// The namespace the caller acts in.
    pub fn owner(&self) -> &OwnerId {
        &self.key.owner
    }
}

/// What a caller wants run.
#[derive(Clone, Debug)]
pub struct ExecutionRequest {
    /// Which skill.
    pub skill: SkillRef,
    /// What goes in.
    pub args: StrictJson,
    /// A word of the caller's that ties runs together.
    pub session_id: Option<String>,
    /// Limits to tighten, or to loosen up to the ceilings.
    pub limits: LimitsPatch,
    /// The digest that must run, or nothing.
    pub digest: Option<Digest>,
    /// When it is tried again; what is not said is as the skill says.
    pub retry: RetryPatch,
    /// Whether it gets no network, whatever the skill is granted.
    pub offline: bool,
    /// Whether it writes nothing into the workspace, whatever the skill is granted.
    pub read_only: bool,
}

impl ExecutionRequest {
    /// A request for `skill` with `args` and nothing else.
    pub fn new(skill: SkillRef, args: StrictJson) -> Self {
        Self {
            skill,
            args,
            session_id: None,
            limits: LimitsPatch::default(),
            retry: RetryPatch::default(),
            digest: None,
            offline: false,
            read_only: false,
        }
    }
}

/// Where an execution stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Written down, not started.
    Pending,
    /// Started.
    Running,
    /// Ended with an output.
    Success,
    /// Ended without one.
    Error,
    /// Ended by its deadline.
    Timeout,
    /// Ended by somebody.
    Cancelled,
}

impl Status {
    /// Every status.
    pub const ALL: &'static [Self] =
        &[Self::Pending, Self::Running, Self::Success, Self::Error, Self::Timeout, Self::Cancelled];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Success => "success",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing comes after it.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    /// How a run that ended with `code` stands.
    pub fn of(code: Code) -> Self {
        match code {
            Code::Timeout => Self::Timeout,
            Code::Cancelled => Self::Cancelled,
            _ => Self::Error,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Status {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().copied().find(|status| status.as_str() == text);
        found.ok_or_else(|| {
            let words: Vec<_> = Self::ALL.iter().map(|status| status.as_str()).collect();
            Error::new(Code::Malformed, format!("status must be one of {}", words.join(", ")))
        })
    }
}

/// Why a run did not succeed. `message` is safe to show.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunError {
    /// The stable name of the failure.
    pub code: Code,
    /// What happened; where a limit bit, its value and its setting.
    pub message: String,
    /// More, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

impl RunError {
    /// A failure with this code and text.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: None }
    }
}

/// Something a guest asked for and was not given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The import that was called.
    pub import: String,
    /// What it asked for.
    pub asked: String,
    /// The grant that would have allowed it.
    pub grant: String,
    /// The command that gives that grant.
    pub fix: String,
}

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Units of fuel; 0 where it was not counted.
    pub fuel: u64,
    /// Most memory at one time: all memories and tables, in bytes.
    pub memory_peak_bytes: u64,
    /// Time spent waiting for a free place, in milliseconds.
    pub queue_ms: f64,
    /// Bytes sent and received through the egress guard.
    pub egress_bytes: u64,
}

impl Usage {
    /// What this and another attempt used together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            fuel: self.fuel.saturating_add(other.fuel),
            memory_peak_bytes: self.memory_peak_bytes.max(other.memory_peak_bytes),
            egress_bytes: self.egress_bytes.saturating_add(other.egress_bytes),
            ..other
        }
    }
}

/// What a guest wrote to stdout and stderr: UTF-8, no control characters but line ends and tabs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Whether stdout was cut at its limit.
    pub stdout_truncated: bool,
    /// Whether stderr was cut at its limit.
    pub stderr_truncated: bool,
}

/// What is left of a result that is no longer kept in full (setting `retention.results`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredResult {
    /// The output, redacted and cut, so maybe no longer JSON; none if there was no output.
    pub output_copy: Option<String>,
    /// How long the output was, in bytes.
    pub output_bytes: Option<u64>,
}

/// One run, as it is told to those who may see it.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Its id.
    pub id: ExecutionId,
    /// Whose it is.
    pub owner: OwnerId,
    /// The skill's id.
    pub skill: SkillId,
    /// The skill as `name@version`.
    pub skill_address: Arc<str>,
    /// The function that ran.
    pub function: Arc<str>,
    /// SHA-256 of the component that ran.
    pub digest: Digest,
    /// Where it stands.
    pub status: Status,
    /// What came out, as the guest wrote it; also `None` once it is no longer kept.
    pub output: Option<Box<RawValue>>,
    /// What is left of the output, where it and what was printed are no longer kept.
    pub expired: Option<ExpiredResult>,
    /// What it printed.
    pub streams: Streams,
    /// What it logged and reported; kept as long as its output is, but for the progress.
    pub said: Said,
    /// Exit code of a command.
    pub exit_code: Option<i32>,
    /// Why it did not succeed.
    pub error: Option<RunError>,
    /// What it was not given.
    pub denials: Vec<Denial>,
    /// How often it was tried.
    pub attempts: u32,
    /// The attempts before the last one.
    pub earlier: Vec<EarlierAttempt>,
    /// What interceptors did to it; not those in this process that changed nothing. Lists leave it out.
    pub interceptors: Vec<Decision>,
    /// What it used.
    pub usage: Usage,
    /// The execution that called it.
    pub parent_id: Option<ExecutionId>,
    /// The caller's session.
    pub session_id: Option<String>,
    /// The way the request came in.
    pub door: Door,
    /// The key that asked.
    pub key_id: KeyId,
    /// When the request came in, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// When it started, in milliseconds since the Unix epoch.
    pub started_at: Option<i64>,
    /// When it ended, in milliseconds since the Unix epoch.
    pub finished_at: Option<i64>,
    /// From the request to the end, in microseconds.
    pub duration_us: Option<u64>,
}

impl Execution {
    /// Whether the guest was stopped from outside.
    pub fn killed(&self) -> bool {
        matches!(self.status, Status::Timeout | Status::Cancelled)
    }
}
