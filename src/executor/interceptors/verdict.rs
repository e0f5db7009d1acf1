//! What an interceptor outside of this program answers (API.md §7), read strictly.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::model::{Limits, LogLine, Phase, Progress, RunError, StrictJson, clip, plain, steers};
use crate::sandbox::SandboxReply;

use super::contract::Trouble;

/// Most bytes of everything that interceptors add to one run.
pub(super) const MAX_CONTEXT: usize = 64 << 10;
/// Most bytes of the message of an error, and of one line of a log.
const MAX_MESSAGE: usize = 4096;
/// Most lines of a log, and reports.
const MAX_LINES: usize = 1_000;

/// What is to become of a run.
#[derive(Debug)]
pub(super) enum Verdict {
    Continue,
    /// Before: it goes on with these arguments.
    Args(StrictJson),
    /// Before: this is its output.
    Answer(Box<RawValue>),
    /// After: these changes are made.
    Changes(Box<Changes>),
    /// After: they are made already.
    Changed,
    Reject(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Continue,
    Replace,
    Answer,
    Reject,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    action: Action,
    #[serde(default, deserialize_with = "given")]
    args: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "given")]
    output: Option<Box<RawValue>>,
    context: Option<Map<String, Value>>,
    reason: Option<String>,
    stdout: Option<String>,
    stderr: Option<String>,
    log: Option<Vec<LogLine>>,
    progress: Option<Vec<Report>>,
    error: Option<Words>,
}

/// What is changed of what came out.
#[derive(Debug)]
pub(super) struct Changes {
    output: Option<Box<RawValue>>,
    stdout: Option<String>,
    stderr: Option<String>,
    log: Option<Vec<LogLine>>,
    progress: Option<Vec<Report>>,
    error: Option<Words>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    message: String,
    detail: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    at: i64,
    done: f64,
    total: Option<f64>,
    #[serde(default)]
    message: String,
}

/// A value, also where it is null.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Reads an answer, and what it adds.
///
/// # Errors
///
/// `invalid_answer` for everything that is not exactly an answer in this phase.
pub(super) fn read(text: &str, phase: Phase) -> Result<(Verdict, Map<String, Value>), Trouble> {
    let invalid = |_| Trouble::INVALID_ANSWER;
    // Strictly: two readers of one answer must not see two.
    StrictJson::parse(text).map_err(invalid)?;
    let answer: Answer = serde_json::from_str(text).map_err(|_| Trouble::INVALID_ANSWER)?;
    let Answer { action, args, output, context, reason, stdout, stderr, log, progress, error } = answer;
    let changes = Changes { output, stdout, stderr, log, progress, error };
    let (has_output, has_more) = (changes.output.is_some(), changes.has_more());
    let verdict = match (phase, action, args) {
        (_, Action::Continue, None) if !has_output && !has_more => Verdict::Continue,
        (_, Action::Reject, None) if !has_output && !has_more => Verdict::Reject(reason.unwrap_or_default()),
        (Phase::Before, Action::Replace, Some(args)) if !has_output && !has_more => {
            Verdict::Args(StrictJson::from_raw(args).map_err(invalid)?)
        }
        (Phase::Before, Action::Answer, None) if !has_more => {
            Verdict::Answer(changes.output.ok_or(Trouble::INVALID_ANSWER)?)
        }
        (Phase::After, Action::Replace, None) if has_output || has_more => Verdict::Changes(Box::new(changes)),
        _ => return Err(Trouble::INVALID_ANSWER),
    };
    if phase == Phase::After && context.is_some() {
        return Err(Trouble::INVALID_ANSWER);
    }
    Ok((verdict, context.unwrap_or_default()))
}

impl Changes {
    fn has_more(&self) -> bool {
        let texts = self.stdout.is_some() || self.stderr.is_some() || self.log.is_some();
        texts || self.progress.is_some() || self.error.is_some()
    }

    /// Makes the changes.
    ///
    /// # Errors
    ///
    /// `invalid_answer`, and nothing is changed, if there is no output or error that it could change.
    pub(super) fn make(self, reply: &mut SandboxReply, limits: &Limits) -> Result<(), Trouble> {
        let Self { output, stdout, stderr, log, progress, error } = self;
        match (&mut reply.outcome, output, error) {
            (_, None, None) => {}
            (Ok(old), Some(output), None) => *old = output,
            (Err(old), None, Some(Words { message, detail })) => {
                *old = RunError { code: old.code, message: plain(&message, MAX_MESSAGE), detail };
            }
            _ => return Err(Trouble::INVALID_ANSWER),
        }
        let most = usize::try_from(limits.output_bytes).unwrap_or(usize::MAX);
        if let Some(text) = stdout {
            reply.streams.stdout = lines(text, most);
        }
        if let Some(text) = stderr {
            reply.streams.stderr = lines(text, most);
        }
        if let Some(mut log) = log {
            log.truncate(MAX_LINES);
            let line = |line: LogLine| LogLine {
                context: plain(&line.context, MAX_MESSAGE),
                message: lines(line.message, MAX_MESSAGE),
                ..line
            };
            reply.said.log = log.into_iter().map(line).collect();
        }
        if let Some(reports) = progress {
            reply.said.progress = reports.into_iter().take(MAX_LINES).map(Report::told).collect();
        }
        Ok(())
    }
}

impl Report {
    fn told(self) -> Progress {
        Progress { at: self.at, done: self.done, total: self.total, message: plain(&self.message, MAX_MESSAGE) }
    }
}

/// A text without control characters but line ends and tabs.
fn lines(mut text: String, most: usize) -> String {
    text.retain(|c| !steers(c) || c == '\n' || c == '\t');
    clip(&mut text, most);
    text
}

#[cfg(test)]
mod tests {
    use crate::model::Code;

    use super::*;

    #[test]
    fn only_an_answer_of_the_phase_is_one() {
        let before = |text: &str| read(text, Phase::Before);
        assert!(matches!(before(r#"{"action":"continue"}"#), Ok((Verdict::Continue, _))));
        assert!(matches!(before(r#"{"action":"replace","args":{"a":1}}"#), Ok((Verdict::Args(_), _))));
        assert!(matches!(before(r#"{"action":"answer","output":null}"#), Ok((Verdict::Answer(_), _))));
        assert!(matches!(before(r#"{"action":"reject"}"#), Ok((Verdict::Reject(_), _))));
        let (_, context) = before(r#"{"action":"continue","context":{"a":1}}"#).unwrap();
        assert_eq!(context["a"], 1);
        let after = |text: &str| read(text, Phase::After);
        assert!(matches!(after(r#"{"action":"replace","stdout":"x"}"#), Ok((Verdict::Changes(_), _))));
        for bad in [
            "",
            "null",
            "[]",
            "\"continue\"",
            "{}",
            r#"{"action":"allow"}"#,
            r#"{"action":"continue","action":"reject"}"#,
            r#"{"action":"continue","args":{}}"#,
            r#"{"action":"continue","output":1}"#,
            r#"{"action":"continue","extra":1}"#,
            r#"{"action":"replace"}"#,
            r#"{"action":"answer"}"#,
            r#"{"action":"reject","context":1}"#,
            r#"{"action":"continue"} x"#,
        ] {
            assert!(before(bad).is_err(), "{bad}");
            assert!(after(bad).is_err(), "{bad}");
        }
        for bad in [r#"{"action":"answer","output":1}"#, r#"{"action":"continue","context":{}}"#] {
            assert!(after(bad).is_err(), "{bad}");
        }
        assert!(before(r#"{"action":"replace","stdout":"x"}"#).is_err());
    }

    #[test]
    fn a_run_that_failed_gets_no_output_and_keeps_its_code() {
        let change = |text: &str, reply: &mut SandboxReply| match read(text, Phase::After) {
            Ok((Verdict::Changes(changes), _)) => changes.make(reply, &Limits::DEFAULT),
            other => panic!("{other:?}"),
        };
        let mut reply = SandboxReply::without_run(RunError::new(Code::Trap, "secret"));
        assert!(change(r#"{"action":"replace","output":1}"#, &mut reply).is_err());
        change(r#"{"action":"replace","error":{"message":"no\u0007ne"},"stderr":"a\nb\u001b"}"#, &mut reply).unwrap();
        let error = reply.outcome.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (Code::Trap, "none"));
        assert_eq!(reply.streams.stderr, "a\nb");
    }
}
