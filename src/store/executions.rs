//! The tables `skill_executions` and `execution_results`.

use std::sync::Arc;

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use serde_json::value::RawValue;

use crate::model::{
    Code, Digest, Error, Execution, ExecutionId, ExpiredResult, KeyId, OwnerId, RunError, SkillId, SkillName, Status,
    Streams, Usage,
};

use super::{Store, json_column, parsed, to_json};

/// Most bytes of results that are forgotten in one go, but for one that is larger.
const PURGED_BYTES: u32 = 8 << 20;

/// An execution at its start.
#[derive(Clone, Debug)]
pub struct NewExecution {
    /// The execution as it stands; its status is `pending` or `running`.
    pub execution: Arc<Execution>,
    /// SHA-256 of the arguments' text.
    pub args_digest: Digest,
    /// Length of the arguments' text in bytes.
    pub args_bytes: u64,
    /// The redacted, capped copy of the arguments.
    pub args_copy: String,
}

/// An execution at its end.
#[derive(Clone, Debug)]
pub struct FinishedExecution {
    /// The execution as it stands; its status is final.
    pub execution: Arc<Execution>,
    /// SHA-256 of the output's text.
    pub output_digest: Option<Digest>,
    /// The redacted, capped copy of the output.
    pub output_copy: Option<String>,
}

/// Which executions to list.
#[derive(Clone, Debug, Default)]
pub struct ExecutionFilter {
    /// Only this owner's.
    pub owner: Option<OwnerId>,
    /// Only what this key started.
    pub key: Option<KeyId>,
    /// Only of this skill: a name, or `name@version`.
    pub skill: Option<String>,
    /// Only of skills with one of these names.
    pub names: Option<Vec<SkillName>>,
    /// Only with this status.
    pub status: Option<Status>,
    /// Only of this session.
    pub session: Option<String>,
    /// Only those that came in at or after this time, in milliseconds since the Unix epoch.
    pub since: Option<i64>,
    /// Only older ones than this.
    pub before: Option<ExecutionId>,
    /// Most to give.
    pub limit: u32,
}

/// Some executions, newest first.
#[derive(Clone, Debug)]
pub struct ExecutionPage {
    /// The executions, without their outputs and streams.
    pub executions: Vec<Execution>,
    /// Whether there are older ones.
    pub more: bool,
    /// How many match in all.
    pub total: u64,
}

impl Store {
    /// Writes down that an execution begins.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn open_execution(&self, new: NewExecution) -> Result<(), Error> {
        self.write(move |connection| insert(connection, &new)).await
    }

    /// Writes down how an execution ended, and keeps its result.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn close_execution(&self, finished: FinishedExecution) -> Result<(), Error> {
        self.write_together(move |connection| {
            if update(connection, &finished)? > 0 {
                keep_result(connection, &finished.execution)?;
            }
            Ok(())
        })
        .await
    }

    /// Writes down an execution that has ended, of which nothing is written yet.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn write_execution(&self, new: NewExecution, finished: FinishedExecution) -> Result<(), Error> {
        self.write_together(move |connection| {
            insert(connection, &new)?;
            update(connection, &finished)?;
            keep_result(connection, &finished.execution)
        })
        .await
    }

    /// Ends every execution that a dead host left open; gives how many.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn interrupt_open_executions(&self, at: i64) -> Result<usize, Error> {
        let message = "the host stopped before the execution ended";
        self.write(move |connection| {
            // The clock may have been set back since.
            connection.execute(
                "UPDATE skill_executions SET status = 'error', error_code = ?1, error_message = ?2, finished_at = ?3,
                 duration_us = max(0, ?3 - created_at) * 1000 WHERE status IN ('pending', 'running')",
                params![Code::Interrupted.as_str(), message, at],
            )
        })
        .await
    }

    /// Forgets the results of executions that ended before `before`, in milliseconds since the
    /// Unix epoch; at most `limit`, and no more than some MiB at one time; gives how many.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn purge_results(&self, before: i64, limit: u32) -> Result<usize, Error> {
        // What ended before then began before then, so that only the oldest rows are looked at.
        let begun = ExecutionId::first_at(before);
        self.write(move |connection| {
            connection
                .prepare_cached(
                    "WITH old AS
                     (SELECT execution_id,
                      coalesce(octet_length(output), 0) + octet_length(stdout) + octet_length(stderr) AS bytes
                      FROM execution_results LEFT JOIN skill_executions ON id = execution_id
                      WHERE execution_id < ?1 AND coalesce(finished_at, 0) < ?2 ORDER BY execution_id LIMIT ?3),
                     summed AS
                     (SELECT execution_id, bytes, sum(bytes) OVER (ORDER BY execution_id) AS sum FROM old)
                     DELETE FROM execution_results WHERE execution_id IN
                     (SELECT execution_id FROM summed WHERE sum <= max(bytes, ?4))",
                )?
                .execute(params![begun.as_bytes(), before, limit, PURGED_BYTES])
        })
        .await
    }

    /// One execution with its result, if it is this owner's, or anybody's where no owner is given.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn execution(&self, id: ExecutionId, owner: Option<OwnerId>) -> Result<Option<Execution>, Error> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(
                "SELECT * FROM skill_executions LEFT JOIN execution_results r ON r.execution_id = id
                 WHERE id = ?1 AND (?2 IS NULL OR skill_executions.owner = ?2)",
            )?;
            let owner = owner.as_ref().map(OwnerId::as_str);
            query.query_row(params![id.as_bytes(), owner], with_result).optional()
        })
        .await
    }

    /// Executions, newest first.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, Error> {
        self.read(move |connection| {
            let (conditions, mut values) = conditions(&filter);
            let count = format!("SELECT count(*) FROM skill_executions WHERE {conditions}");
            let total =
                connection.prepare_cached(&count)?.query_row(params_from_iter(values.iter()), |row| row.get(0))?;
            let before = filter.before.map_or([0xff; 16], |id| *id.as_bytes());
            values.push(Sql::Blob(before.to_vec()));
            values.push(Sql::Integer(i64::from(filter.limit) + 1));
            let list = format!("SELECT * FROM skill_executions WHERE {conditions} AND id < ? ORDER BY id DESC LIMIT ?");
            let mut query = connection.prepare_cached(&list)?;
            let rows = query.query_map(params_from_iter(values), execution)?;
            let mut executions: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
            let more = executions.len() > filter.limit as usize;
            executions.truncate(filter.limit as usize);
            Ok(ExecutionPage { executions, more, total })
        })
        .await
    }
}

/// The filter as SQL, always with at least one condition.
fn conditions(filter: &ExecutionFilter) -> (String, Vec<Sql>) {
    let mut parts = vec!["true"];
    let mut values = Vec::new();
    let mut add = |part, value: String| {
        parts.push(part);
        values.push(Sql::Text(value));
    };
    if let Some(owner) = &filter.owner {
        add("owner = ?", owner.to_string());
    }
    if let Some(session) = &filter.session {
        add("session_id = ?", session.clone());
    }
    if let Some(key) = &filter.key {
        add("key_id = ?", key.to_string());
    }
    if let Some(names) = &filter.names {
        add("substr(skill, 1, instr(skill, '@') - 1) IN (SELECT value FROM json_each(?))", to_json(names));
    }
    if let Some(status) = filter.status {
        add("status = ?", status.to_string());
    }
    if let Some(skill) = &filter.skill {
        if skill.contains('@') {
            add("skill = ?", skill.clone());
        } else {
            add("substr(skill, 1, instr(skill, '@') - 1) = ?", skill.clone());
        }
    }
    if let Some(since) = filter.since {
        parts.push("created_at >= ?");
        values.push(Sql::Integer(since));
    }
    (parts.join(" AND "), values)
}

fn insert(connection: &Connection, new: &NewExecution) -> rusqlite::Result<()> {
    let execution = &new.execution;
    connection
        .prepare_cached(
            "INSERT INTO skill_executions (id, owner, status, skill_id, skill, function, digest, key_id, door,
             session_id, parent_id, attempts, created_at, started_at, queue_us, fuel, memory_peak_bytes,
             egress_bytes, args_sha256, args_bytes, args_copy)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, ?12, ?13, ?14, 0, 0, 0, ?15, ?16, ?17)",
        )?
        .execute(params![
            execution.id.as_bytes(),
            execution.owner.as_str(),
            execution.status.as_str(),
            execution.skill.as_bytes(),
            &*execution.skill_address,
            &*execution.function,
            execution.digest.as_bytes(),
            execution.key_id.as_str(),
            execution.door.as_str(),
            execution.session_id,
            execution.parent_id.as_ref().map(ExecutionId::as_bytes),
            execution.created_at,
            execution.started_at,
            queue_us(&execution.usage),
            new.args_digest.as_bytes(),
            new.args_bytes,
            new.args_copy,
        ])
        .map(drop)
}

fn update(connection: &Connection, finished: &FinishedExecution) -> rusqlite::Result<usize> {
    let execution = &finished.execution;
    let output = execution.output.as_ref().map(|output| output.get());
    let error = execution.error.as_ref();
    let denials = (!execution.denials.is_empty()).then(|| to_json(&execution.denials));
    connection
        .prepare_cached(
            "UPDATE skill_executions SET status = ?2, attempts = ?3, finished_at = ?4, duration_us = ?5, fuel = ?6,
             memory_peak_bytes = ?7, egress_bytes = ?8, exit_code = ?9, error_code = ?10, error_message = ?11,
             error_detail = ?12, denials = ?13, output_sha256 = ?14, output_bytes = ?15, output_copy = ?16
             WHERE id = ?1 AND status IN ('pending', 'running')",
        )?
        .execute(params![
            execution.id.as_bytes(),
            execution.status.as_str(),
            execution.attempts,
            execution.finished_at,
            execution.duration_us,
            integer(execution.usage.fuel),
            integer(execution.usage.memory_peak_bytes),
            integer(execution.usage.egress_bytes),
            execution.exit_code,
            error.map(|error| error.code.as_str()),
            error.map(|error| &error.message),
            error.and_then(|error| error.detail.as_ref()).map(to_json),
            denials,
            finished.output_digest.as_ref().map(Digest::as_bytes),
            output.map(str::len),
            finished.output_copy,
        ])
}

fn keep_result(connection: &Connection, execution: &Execution) -> rusqlite::Result<()> {
    let streams = &execution.streams;
    connection
        .prepare_cached("INSERT INTO execution_results VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
        .execute(params![
            execution.id.as_bytes(),
            execution.owner.as_str(),
            execution.output.as_ref().map(|output| output.get()),
            streams.stdout,
            streams.stderr,
            streams.stdout_truncated,
            streams.stderr_truncated,
        ])
        .map(drop)
}

fn with_result(row: &Row<'_>) -> rusqlite::Result<Execution> {
    let mut execution = execution(row)?;
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
    } else if execution.finished_at.is_some() && !was_lost {
        execution.expired =
            Some(ExpiredResult { output_copy: row.get("output_copy")?, output_bytes: row.get("output_bytes")? });
    }
    Ok(execution)
}

fn execution(row: &Row<'_>) -> rusqlite::Result<Execution> {
    let text = |name| row.get_ref(name).and_then(|value| Ok(value.as_str()?));
    let parent: Option<[u8; 16]> = row.get("parent_id")?;
    let denials: Option<String> = row.get("denials")?;
    let queue_us: u32 = row.get("queue_us")?;
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
        exit_code: row.get("exit_code")?,
        error: run_error(row)?,
        denials: denials.map(|text| json_column(&text)).transpose()?.unwrap_or_default(),
        attempts: row.get("attempts")?,
        usage: Usage {
            fuel: row.get("fuel")?,
            memory_peak_bytes: row.get("memory_peak_bytes")?,
            queue_ms: f64::from(queue_us) / 1000.0,
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

/// Time in the queue in whole microseconds.
fn queue_us(usage: &Usage) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "a float saturates, which is what is meant")]
    let us = (usage.queue_ms * 1000.0) as i64;
    us.clamp(0, i64::from(u32::MAX))
}

/// A count as SQLite stores it.
fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
