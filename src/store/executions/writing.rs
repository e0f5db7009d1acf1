//! Writing the record of an execution: a row of `open_executions` when it begins; when it has
//! ended, that row goes, and one of `ended_executions`, which is never changed, takes its place.

use std::sync::Arc;

use rusqlite::{Connection, Statement, params};

use crate::model::{Code, Digest, Error, Execution, ExecutionId, Usage};
use crate::store::{Store, key_days, queued, to_json, together};

use super::columns::{at_end, at_start};
use super::{ArgsRecord, FinishedExecution, place};

/// Which open executions do not wait for their turn.
macro_rules! lost {
    () => {
        "NOT (status = 'pending' AND id IN (SELECT execution_id FROM queued_requests))"
    };
}

/// Most bytes of results that are forgotten in one go, but for one that is larger.
const PURGED_BYTES: u32 = 8 << 20;

impl Store {
    /// Writes down that an execution begins; its status is `pending` or `running`. Returns at
    /// once; `then` hears how it went, as of any write, on the writer's thread, which it must
    /// not hold up.
    pub fn open_execution(
        &self,
        execution: Arc<Execution>,
        args: Arc<ArgsRecord>,
        then: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        self.writer.send(move |connection| open(connection, &execution, &args), then);
    }

    /// Writes down how an execution ended, and keeps its result; also of one that was never
    /// opened, and once only of one that was closed before. Returns and answers as
    /// [`Store::open_execution`] does.
    pub fn close_execution(
        &self,
        finished: Arc<FinishedExecution>,
        then: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        let counts = finished.counts;
        let work = move |connection: &Connection| {
            keep_result(connection, &finished.execution)?;
            let ended = end(connection, &finished)?;
            if finished.counts && ended {
                key_days::count(connection, &finished.execution)?;
            }
            let id = finished.execution.id;
            if finished.waited {
                queued::forget(connection, id)?;
            }
            let mut delete = connection.prepare_cached("DELETE FROM open_executions WHERE place = ?1 AND id = ?2")?;
            delete.execute(params![place(id), id.as_bytes()]).map(drop)
        };
        if counts {
            self.writer.send(together(work), then);
        } else {
            // No savepoint: what a failure leaves of this, the next try completes.
            self.writer.send(work, then);
        }
    }

    /// Ends every execution that a dead host left open, but for those that wait for their turn;
    /// gives how many.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn interrupt_open_executions(&self, at: i64) -> Result<usize, Error> {
        // The clock may have been set back since.
        const END: &str = concat!(
            "INSERT OR IGNORE INTO ended_executions (",
            at_start!(),
            ", ",
            at_end!(),
            ")
             SELECT id, owner, 'error', skill_id, skill, function, digest, key_id, door, session_id, parent_id,
             attempts, created_at, started_at, queue_us, args_sha256, args_bytes, args_copy,
             ?3, max(0, ?3 - created_at) * 1000, 0, 0, 0, NULL, ?1, ?2, NULL, NULL, NULL, NULL, NULL, NULL
             FROM open_executions WHERE ",
            lost!()
        );
        const DELETE: &str = concat!("DELETE FROM open_executions WHERE ", lost!());
        let message = "the host stopped before the execution ended";
        self.write_together(move |connection| {
            key_days::count_open(connection)?;
            connection.execute(END, params![Code::Interrupted.as_str(), message, at])?;
            let lost = connection.execute(DELETE, [])?;
            let begun = "DELETE FROM queued_requests WHERE execution_id NOT IN (SELECT id FROM open_executions)";
            connection.execute(begun, [])?;
            Ok(lost)
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
                      coalesce(octet_length(output), 0) + octet_length(stdout) + octet_length(stderr)
                      + coalesce(octet_length(log), 0) AS bytes
                      FROM execution_results LEFT JOIN ended_executions ON id = execution_id
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
}

/// Inserts the row of an execution that begins.
pub(in crate::store) fn open(
    connection: &Connection,
    execution: &Execution,
    args: &ArgsRecord,
) -> rusqlite::Result<()> {
    const OPEN: &str = concat!(
        "INSERT INTO open_executions (place, ",
        at_start!(),
        ")
         VALUES (?19, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)"
    );
    let mut insert = connection.prepare_cached(OPEN)?;
    bind_start(&mut insert, execution, args)?;
    insert.raw_bind_parameter(19, place(execution.id))?;
    insert.raw_execute().map(drop)
}

/// Says whether it is new.
fn end(connection: &Connection, finished: &FinishedExecution) -> rusqlite::Result<bool> {
    const END: &str = concat!(
        "INSERT OR IGNORE INTO ended_executions (",
        at_start!(),
        ", ",
        at_end!(),
        ")
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
         ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32)"
    );
    let mut insert = connection.prepare_cached(END)?;
    bind_start(&mut insert, &finished.execution, &finished.args)?;
    bind_end(&mut insert, finished)?;
    insert.raw_execute().map(|rows| rows > 0)
}

/// Parameters 1 to 18: `at_start!()`.
fn bind_start(statement: &mut Statement<'_>, execution: &Execution, args: &ArgsRecord) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(1, execution.id.as_bytes())?;
    statement.raw_bind_parameter(2, execution.owner.as_str())?;
    statement.raw_bind_parameter(3, execution.status.as_str())?;
    statement.raw_bind_parameter(4, execution.skill.as_bytes())?;
    statement.raw_bind_parameter(5, &*execution.skill_address)?;
    statement.raw_bind_parameter(6, &*execution.function)?;
    statement.raw_bind_parameter(7, execution.digest.as_bytes())?;
    statement.raw_bind_parameter(8, execution.key_id.as_str())?;
    statement.raw_bind_parameter(9, execution.door.as_str())?;
    statement.raw_bind_parameter(10, &execution.session_id)?;
    statement.raw_bind_parameter(11, execution.parent_id.as_ref().map(ExecutionId::as_bytes))?;
    statement.raw_bind_parameter(12, execution.attempts)?;
    statement.raw_bind_parameter(13, execution.created_at)?;
    statement.raw_bind_parameter(14, execution.started_at)?;
    statement.raw_bind_parameter(15, queue_us(&execution.usage))?;
    statement.raw_bind_parameter(16, args.digest.as_bytes())?;
    statement.raw_bind_parameter(17, args.bytes)?;
    statement.raw_bind_parameter(18, &args.copy)
}

/// Parameters 19 to 32: `at_end!()`.
fn bind_end(statement: &mut Statement<'_>, finished: &FinishedExecution) -> rusqlite::Result<()> {
    let execution = &finished.execution;
    let error = execution.error.as_ref();
    let denials = (!execution.denials.is_empty()).then(|| to_json(&execution.denials));
    statement.raw_bind_parameter(19, execution.finished_at)?;
    statement.raw_bind_parameter(20, execution.duration_us)?;
    statement.raw_bind_parameter(21, integer(execution.usage.fuel))?;
    statement.raw_bind_parameter(22, integer(execution.usage.memory_peak_bytes))?;
    statement.raw_bind_parameter(23, integer(execution.usage.egress_bytes))?;
    statement.raw_bind_parameter(24, execution.exit_code)?;
    statement.raw_bind_parameter(25, error.map(|error| error.code.as_str()))?;
    statement.raw_bind_parameter(26, error.map(|error| &error.message))?;
    statement.raw_bind_parameter(27, error.and_then(|error| error.detail.as_ref()).map(to_json))?;
    statement.raw_bind_parameter(28, denials)?;
    statement.raw_bind_parameter(29, finished.output_digest.as_ref().map(Digest::as_bytes))?;
    statement.raw_bind_parameter(30, execution.output.as_ref().map(|output| output.get().len()))?;
    statement.raw_bind_parameter(31, &finished.output_copy)?;
    let earlier = (!execution.earlier.is_empty()).then(|| to_json(&execution.earlier));
    statement.raw_bind_parameter(32, earlier)
}

fn keep_result(connection: &Connection, execution: &Execution) -> rusqlite::Result<()> {
    let (streams, said) = (&execution.streams, &execution.said);
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO execution_results
             (execution_id, owner, output, stdout, stderr, stdout_truncated, stderr_truncated, log, log_truncated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            execution.id.as_bytes(),
            execution.owner.as_str(),
            execution.output.as_ref().map(|output| output.get()),
            streams.stdout,
            streams.stderr,
            streams.stdout_truncated,
            streams.stderr_truncated,
            (!said.log.is_empty()).then(|| to_json(&said.log)),
            said.log_truncated,
        ])
        .map(drop)
}

/// Time in the queue in whole microseconds.
pub(in crate::store) fn queue_us(usage: &Usage) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "a float saturates, which is what is meant")]
    let us = (usage.queue_ms * 1000.0) as i64;
    us.max(0)
}

/// A count as SQLite stores it.
fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
