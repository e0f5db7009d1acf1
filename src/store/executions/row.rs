//! Reading the record of an execution.

use rusqlite::Row;
use serde_json::value::RawValue;

use crate::model::{Code, Digest, Execution, ExecutionId, ExpiredResult, RunError, Said, SkillId, Streams, Usage};

use crate::store::{json_column, parsed};

use super::columns::{at_start, open_as_ended};

/// The records of those that wait, with what they need to begin.
pub(in crate::store) const WAITING: &str = concat!(
    "SELECT ",
    at_start!(),
    ", ",
    open_as_ended!(),
    ", request FROM queued_requests JOIN open_executions ON id = execution_id WHERE status = 'pending' \
     AND (?1 IS NULL OR id = ?1) ORDER BY id"
);

/// A record with what is left of its result.
pub(super) fn with_result(row: &Row<'_>) -> rusqlite::Result<Execution> {
    let mut execution = execution(row)?;
    let interceptors: Option<String> = row.get("interceptors")?;
    execution.interceptors = interceptors.map(|text| json_column(&text)).transpose()?.unwrap_or_default();
    let was_lost = execution.error.as_ref().is_some_and(|error| error.code == Code::Interrupted);
    if row.get_ref("execution_id")?.as_blob_or_null()?.is_some() {
        let output: Option<String> = row.get("output")?;
        execution.output = output.and_then(|text| RawValue::from_string(text).ok());
        execution.streams = Streams {
            stdout: row.get("stdout")?,
            stderr: row.get("stderr")?,
            stdout_truncated: row.get("stdout_truncated")?,
            stderr_truncated: row.get("stderr_truncated")?,
        };
        let log: Option<String> = row.get("log")?;
        execution.said.log = log.map(|text| json_column(&text)).transpose()?.unwrap_or_default();
        execution.said.log_truncated = row.get("log_truncated")?;
    } else if execution.finished_at.is_some() && !was_lost {
        execution.expired =
            Some(ExpiredResult { output_copy: row.get("output_copy")?, output_bytes: row.get("output_bytes")? });
    }
    Ok(execution)
}

/// A record without its result.
pub(in crate::store) fn execution(row: &Row<'_>) -> rusqlite::Result<Execution> {
    let text = |name| row.get_ref(name).and_then(|value| Ok(value.as_str()?));
    let parent: Option<[u8; 16]> = row.get("parent_id")?;
    let denials: Option<String> = row.get("denials")?;
    let earlier: Option<String> = row.get("earlier")?;
    let queue_us: i64 = row.get("queue_us")?;
    #[expect(clippy::cast_precision_loss, reason = "microseconds of some hours")]
    let queue_ms = queue_us as f64 / 1000.0;
    Ok(Execution {
        id: ExecutionId::from_bytes(row.get("id")?),
        owner: parsed(text("owner")?)?,
        skill: SkillId::from_bytes(row.get("skill_id")?),
        skill_address: text("skill")?.into(),
        function: text("function")?.into(),
        digest: Digest::from_bytes(row.get("digest")?),
        status: parsed(text("status")?)?,
        output: None,
        expired: None,
        streams: Streams::default(),
        said: Said::default(),
        exit_code: row.get("exit_code")?,
        error: run_error(row)?,
        denials: denials.map(|text| json_column(&text)).transpose()?.unwrap_or_default(),
        attempts: row.get("attempts")?,
        earlier: earlier.map(|text| json_column(&text)).transpose()?.unwrap_or_default(),
        interceptors: Vec::new(),
        usage: Usage {
            fuel: row.get("fuel")?,
            memory_peak_bytes: row.get("memory_peak_bytes")?,
            queue_ms,
            egress_bytes: row.get("egress_bytes")?,
        },
        parent_id: parent.map(ExecutionId::from_bytes),
        session_id: row.get("session_id")?,
        door: parsed(text("door")?)?,
        key_id: parsed(text("key_id")?)?,
        created_at: row.get("created_at")?,
        started_at: row.get("started_at")?,
        finished_at: row.get("finished_at")?,
        duration_us: row.get("duration_us")?,
    })
}

fn run_error(row: &Row<'_>) -> rusqlite::Result<Option<RunError>> {
    let code: Option<String> = row.get("error_code")?;
    let detail: Option<String> = row.get("error_detail")?;
    let Some(code) = code else { return Ok(None) };
    Ok(Some(RunError {
        code: Code::from_name(&code).unwrap_or(Code::Internal),
        message: row.get("error_message")?,
        detail: detail.map(|text| json_column(&text)).transpose()?,
    }))
}
