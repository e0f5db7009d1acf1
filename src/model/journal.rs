//! What a guest says about its run while it runs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How much a line of the log matters, in the words of `wasi:logging`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Steps in detail.
    Trace,
    /// For whoever mends the skill.
    Debug,
    /// For whoever watches it.
    Info,
    /// Something may go wrong.
    Warn,
    /// Something went wrong.
    Error,
    /// Nothing more can be done.
    Critical,
}

/// One line that a guest logged: UTF-8, no control characters but line ends and tabs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When, in milliseconds since the Unix epoch.
    pub at: i64,
    /// How much it matters.
    pub level: LogLevel,
    /// The guest's word for the part that says it.
    pub context: String,
    /// What it says.
    pub message: String,
}

/// How far a guest says that it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// When, in milliseconds since the Unix epoch.
    pub at: i64,
    /// Steps that are done; a finite number.
    pub done: f64,
    /// Steps in all, where it knows; a finite number.
    pub total: Option<f64>,
    /// What it is doing.
    pub message: String,
}

/// What a guest said while it ran, up to caps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// Its log, oldest first.
    pub log: Vec<LogLine>,
    /// Whether some of the log was not kept.
    pub log_truncated: bool,
    /// Its newest reports of progress, oldest first. They are not written down.
    pub progress: Vec<Progress>,
}

/// One thing that a guest says or prints.
#[derive(Clone, Debug, PartialEq)]
pub enum Saying {
    /// How far it is.
    Progress(Progress),
    /// A line of its log.
    Log(LogLine),
    /// A piece of its standard output, clean.
    Stdout(String),
    /// A piece of its standard error, clean.
    Stderr(String),
}

impl Saying {
    /// How long its texts are, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Progress(progress) => progress.message.len(),
            Self::Log(line) => line.context.len() + line.message.len(),
            Self::Stdout(text) | Self::Stderr(text) => text.len(),
        }
    }
}

/// The same for those who follow the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its number: each is larger than those before.
    pub id: u64,
    /// In which attempt it was said, from 1.
    pub attempt: u32,
    /// What was said.
    pub said: Saying,
}

/// What one who follows a run hears.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// Something that was said.
    Event(Arc<Event>),
    /// So many events are no longer kept; nothing if it is not known how many.
    Gap(Option<u64>),
}
