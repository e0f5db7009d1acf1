//! What interceptors outside of this program are told: one JSON object, the same for components and webhooks.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::model::{Clock, EarlierAttempt, Execution, LogLine, Phase, Progress, RunError};
use crate::sandbox::SandboxReply;

/// An event: its `type`, when it happened, and what it is about (the shape of Standard Webhooks).
#[derive(Serialize)]
struct Event<T> {
    r#type: &'static str,
    timestamp: String,
    data: T,
}

/// The execution, as far as it is known.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct About<'a> {
    id: String,
    owner: &'a str,
    skill_id: &'a str,
    function: &'a str,
    digest: String,
    status: &'a str,
    attempts: u32,
    session_id: Option<&'a str>,
    parent_id: Option<String>,
    door: &'a str,
    key_id: &'a str,
    created_at: String,
}

#[derive(Serialize)]
struct Before<'a> {
    execution: About<'a>,
    args: &'a RawValue,
    context: &'a Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct After<'a> {
    execution: About<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a Map<String, Value>>,
    output: Option<&'a RawValue>,
    error: Option<&'a RunError>,
    stdout: &'a str,
    stderr: &'a str,
    log: &'a [LogLine],
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Vec<Report<'a>>>,
    exit_code: Option<i32>,
    earlier_attempts: &'a [EarlierAttempt],
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_expired: Option<bool>,
}

#[derive(Serialize)]
struct Report<'a> {
    at: i64,
    done: f64,
    total: Option<f64>,
    message: &'a str,
}

impl<'a> Report<'a> {
    fn of(report: &'a Progress) -> Self {
        Self { at: report.at, done: report.done, total: report.total, message: &report.message }
    }
}

/// The word for what an interceptor is asked in a phase.
fn event_type(phase: Phase) -> &'static str {
    match phase {
        Phase::Before => "execution.before",
        Phase::After => "execution.after",
    }
}

/// What is asked before a run.
pub(super) fn before(execution: &Execution, args: &str, context: &Map<String, Value>, now: i64) -> String {
    let Ok(args) = serde_json::from_str(args) else { return String::new() };
    text(event_type(Phase::Before), now, Before { execution: about(execution), args, context })
}

/// What is asked after a run.
pub(super) fn after(
    execution: &Execution,
    args: &str,
    context: &Map<String, Value>,
    (reply, earlier, now): (&SandboxReply, &[EarlierAttempt], i64),
) -> String {
    let data = After {
        execution: about(execution),
        args: serde_json::from_str(args).ok(),
        context: Some(context),
        output: reply.outcome.as_deref().ok(),
        error: reply.outcome.as_ref().err(),
        stdout: &reply.streams.stdout,
        stderr: &reply.streams.stderr,
        log: &reply.said.log,
        progress: Some(reply.said.progress.iter().map(Report::of).collect()),
        exit_code: reply.exit_code,
        earlier_attempts: earlier,
        duration_ms: None,
        result_expired: None,
    };
    text(event_type(Phase::After), now, data)
}

/// What is told of a run that is over, as its record has it.
pub(super) fn ended(execution: &Execution) -> String {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds with three digits")]
    let duration_ms = execution.duration_us.map(|us| us as f64 / 1000.0);
    let data = After {
        execution: about(execution),
        args: None,
        context: None,
        output: execution.output.as_deref(),
        error: execution.error.as_ref(),
        stdout: &execution.streams.stdout,
        stderr: &execution.streams.stderr,
        log: &execution.said.log,
        progress: None,
        exit_code: execution.exit_code,
        earlier_attempts: &execution.earlier,
        duration_ms,
        result_expired: execution.expired.as_ref().map(|_| true),
    };
    text("execution.ended", execution.finished_at.unwrap_or(execution.created_at), data)
}

fn about(execution: &Execution) -> About<'_> {
    About {
        id: execution.id.to_string(),
        owner: execution.owner.as_str(),
        skill_id: &execution.skill_address,
        function: &execution.function,
        digest: execution.digest.to_string(),
        status: execution.status.as_str(),
        attempts: execution.attempts,
        session_id: execution.session_id.as_deref(),
        parent_id: execution.parent_id.map(|id| id.to_string()),
        door: execution.door.as_str(),
        key_id: execution.key_id.as_str(),
        created_at: Clock::rfc3339(execution.created_at),
    }
}

fn text(kind: &'static str, now: i64, data: impl Serialize) -> String {
    serde_json::to_string(&Event { r#type: kind, timestamp: Clock::rfc3339(now), data }).unwrap_or_default()
}
