//! What an interceptor of an embedding program is: a trait, and what it is given.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::model::{Code, Denial, EarlierAttempt, Error, Execution, Phase, RunError, Said, Streams, StrictJson, plain};
use crate::sandbox::SandboxReply;

/// Most bytes of the reason that an interceptor gives.
pub(super) const MAX_REASON: usize = 1024;

/// Code around every execution (SPEC §8).
///
/// Both methods do nothing unless they are written. One that panics has failed.
pub trait Interceptor: Send + Sync + 'static {
    /// Where it stands; one that stands on one side only costs nothing on the other.
    fn phases(&self) -> &[Phase] {
        Phase::ALL
    }

    /// Whether [`Interceptor::after`] may change what came out. While it may, nothing of that is told to those
    /// who follow the run before it has been asked.
    fn may_change(&self) -> bool {
        true
    }

    /// Before anything of the guest starts; the run is on record by then.
    fn before(&self, asked: &mut Asked<'_>) -> Before {
        let _ = asked;
        Before::Continue
    }

    /// After the guest has ended, or was not even started. What it leaves in `outcome` is checked against the
    /// output schema, written down and told.
    fn after(&self, outcome: &mut Outcome<'_>) -> After {
        let _ = outcome;
        After::Pass
    }
}

/// What becomes of a run that was asked for.
#[derive(Debug)]
pub enum Before {
    /// It goes on as it is.
    Continue,
    /// It goes on with these arguments, which are checked like a caller's.
    Replace(StrictJson),
    /// This is its output; the skill does not run.
    Answer(StrictJson),
    /// It is refused, with this reason for the caller.
    Reject(String),
    /// There is no answer: it is refused too, unless the interceptor is optional.
    Fail,
}

/// What becomes of what came out.
#[derive(Debug)]
pub enum After {
    /// It is as it was.
    Pass,
    /// The interceptor has changed it.
    Changed,
    /// It is withheld, with this reason for the caller.
    Reject(String),
    /// There is no answer: it is withheld too, unless the interceptor is optional.
    Fail,
}

/// A run that was asked for.
#[derive(Debug)]
pub struct Asked<'a> {
    pub(super) execution: &'a Execution,
    pub(super) args: &'a str,
    pub(super) context: &'a mut Map<String, Value>,
}

impl Asked<'_> {
    /// The execution as it stands.
    pub fn execution(&self) -> &Execution {
        self.execution
    }

    /// Its arguments as JSON text.
    pub fn args(&self) -> &str {
        self.args
    }

    /// What interceptors before this one, and this one, added.
    pub fn context(&self) -> &Map<String, Value> {
        self.context
    }

    /// Adds something that the skill may ask for, and that later interceptors see.
    pub fn add_context(&mut self, name: impl Into<String>, value: Value) {
        self.context.insert(name.into(), value);
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome<'a> {
    pub(super) execution: &'a Execution,
    pub(super) args: &'a str,
    pub(super) context: &'a Map<String, Value>,
    pub(super) reply: &'a mut SandboxReply,
    pub(super) earlier: &'a mut Vec<EarlierAttempt>,
}

impl Outcome<'_> {
    /// The execution as it began; nothing of what came out is in it.
    pub fn execution(&self) -> &Execution {
        self.execution
    }

    /// The arguments that the skill was run with, as JSON text.
    pub fn args(&self) -> &str {
        self.args
    }

    /// What interceptors added before the run.
    pub fn context(&self) -> &Map<String, Value> {
        self.context
    }

    /// The output as JSON text, if there is one.
    pub fn output(&self) -> Option<&str> {
        self.reply.outcome.as_ref().ok().map(|output| output.get())
    }

    /// Why there is no output.
    pub fn error(&self) -> Option<&RunError> {
        self.reply.outcome.as_ref().err()
    }

    /// Puts another output in place of the one there is. It is checked against the output schema later.
    ///
    /// # Errors
    ///
    /// `malformed` if it is not JSON; `conflict` if the run has no output.
    pub fn set_output(&mut self, text: impl Into<String>) -> Result<(), Error> {
        let Ok(output) = &mut self.reply.outcome else {
            return Err(Error::new(Code::Conflict, "a run that failed has no output that could be changed"));
        };
        *output = RawValue::from_string(text.into())
            .map_err(|error| Error::new(Code::Malformed, format!("not readable as JSON: {error}")))?;
        Ok(())
    }

    /// Changes the words for why there is no output, and what programs are told beside them. The code stays.
    pub fn set_error(&mut self, message: impl Into<String>, detail: Option<Value>) {
        if let Err(error) = &mut self.reply.outcome {
            error.message = message.into();
            error.detail = detail;
        }
    }

    /// What the guest printed.
    pub fn streams(&mut self) -> &mut Streams {
        &mut self.reply.streams
    }

    /// What it logged and reported.
    pub fn said(&mut self) -> &mut Said {
        &mut self.reply.said
    }

    /// What it was not given.
    pub fn denials(&mut self) -> &mut Vec<Denial> {
        &mut self.reply.denials
    }

    /// The attempts before the last one.
    pub fn earlier(&mut self) -> &mut Vec<EarlierAttempt> {
        self.earlier
    }
}

/// Why an interceptor gave no answer that can be used: a word for the record, which says nothing of its inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trouble(pub(super) &'static str);

impl Trouble {
    pub(super) const TIMEOUT: Self = Self("timeout");
    pub(super) const INVALID_ANSWER: Self = Self("invalid_answer");
    pub(super) const UNAVAILABLE: Self = Self("unavailable");
    pub(super) const DENIED: Self = Self("denied");
    pub(super) const FAILED: Self = Self("failed");
    pub(super) const PANIC: Self = Self("panic");
}

/// The end of a run that an interceptor refused.
pub(super) fn rejected(name: &str, reason: &str) -> RunError {
    let reason = super::builtin::without_secrets(&plain(reason, MAX_REASON));
    let why = if reason.is_empty() { "and gave no reason" } else { reason.as_str() };
    RunError::new(Code::Rejected, format!("the interceptor `{name}` refused: {why}"))
}

/// The end of a run of which an interceptor failed that is not optional.
pub(super) fn failed(name: &str, phase: Phase, trouble: Trouble) -> RunError {
    let what = match phase {
        Phase::Before => "the skill was not run",
        Phase::After => "what came out is withheld",
    };
    RunError::new(Code::Rejected, format!("the interceptor `{name}` failed ({}), and {what}", trouble.0))
}
