//! Writing the record of an execution: a row of `open_executions` when it begins; when it has
//! ended, that row goes, and one of `ended_executions`, which is never changed, takes its place.

use std::sync::Arc;

use rusqlite::{Connection, params};

use crate::model::{Code, Error, Execution, ExecutionId, OwnerId};
use crate::store::chain::{Chain, with_execution};
use crate::store::journal::{MAX_RECORD, Record};
use crate::store::usage::{self, result_bytes};
use crate::store::{Store, key_days, parsed, together};

use super::columns::{at_end, at_start};
use super::{ArgsRecord, Counts, FinishedExecution, applying, recording};

/// Which open executions do not wait for their turn.
macro_rules! lost {
    () => {
        "NOT (status = 'pending' AND id IN (SELECT execution_id FROM queued_requests))"
    };
}

/// How often an execution is begun that a crash interrupts each time: it may be what the host dies of.
const MOST_STARTS: u32 = 3;
/// Most bytes of results that are forgotten in one go, but for one that is larger.
const PURGED_BYTES: u32 = 8 << 20;

/// Forgets the oldest results, and tells whose and how large each was.
const PURGE: &str = "WITH old AS
    (SELECT execution_id,
     coalesce(octet_length(output), 0) + octet_length(stdout) + octet_length(stderr)
     + coalesce(octet_length(log), 0) AS bytes
     FROM execution_results LEFT JOIN ended_executions ON id = execution_id
     WHERE execution_id < ?1 AND coalesce(finished_at, 0) < ?2 ORDER BY execution_id LIMIT ?3),
    summed AS
    (SELECT execution_id, bytes, sum(bytes) OVER (ORDER BY execution_id) AS sum FROM old)
    DELETE FROM execution_results WHERE execution_id IN
    (SELECT execution_id FROM summed WHERE sum <= max(bytes, ?4))
    RETURNING owner, coalesce(octet_length(output), 0) + octet_length(stdout) + octet_length(stderr)
    + coalesce(octet_length(log), 0)";

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
        self.keep(recording::opening(&execution, &args), then);
    }

    /// Writes down how an execution ended, and keeps its result; also of one that was never
    /// opened, and once only of one that was closed before. Returns and answers as
    /// [`Store::open_execution`] does.
    pub fn close_execution(
        &self,
        finished: Arc<FinishedExecution>,
        then: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        let (record, kept) = (recording::closing(&finished), Arc::clone(&self.kept));
        self.keep(record, move |closed| {
            if closed.is_ok() {
                kept.add(&finished.execution.owner, result_bytes(&finished.execution));
            }
            // Before the answer, after which others have the execution.
            drop(finished);
            then(closed);
        });
    }

    /// Keeps a record; in the journal, if it is of a size for that.
    fn keep(&self, record: rusqlite::Result<Record>, then: impl FnOnce(Result<(), Error>) + Send + 'static) {
        match record {
            Err(error) => then(Err(Error::internal(error))),
            Ok(record) if record.len() <= MAX_RECORD => self.journal.keep(record, then),
            Ok(record) => {
                let put = move |connection: &Connection| applying::put(connection, &record);
                self.writer.send(together(put), then);
            }
        }
    }

    /// Ends every execution that a dead host left open, but for those that wait for their turn, and
    /// those that had begun and are to begin again, which wait for it now; gives how many.
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
        const AGAIN: &str = "UPDATE open_executions SET status = 'pending', started_at = NULL, attempts = attempts + 1
             WHERE status = 'running' AND attempts < ?1 AND id IN (SELECT execution_id FROM queued_requests)";
        const DELETE: &str = concat!("DELETE FROM open_executions WHERE ", lost!());
        let message = "the host stopped before the execution ended";
        self.write_together(move |connection| {
            // What is to begin again counts when it has ended.
            connection.execute(AGAIN, [MOST_STARTS])?;
            key_days::count_open(connection)?;
            usage::count_lost(connection, lost!())?;
            let ended = concat!(
                "SELECT id FROM open_executions WHERE ",
                lost!(),
                " AND id NOT IN (SELECT id FROM ended_executions) ORDER BY id"
            );
            let mut ended = connection.prepare(ended)?;
            let ended: Vec<[u8; 16]> = ended.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            connection.execute(END, params![Code::Interrupted.as_str(), message, at])?;
            let (mut chain, mut counts) = (Chain::default(), Counts::default());
            for id in &ended {
                with_execution(connection, id, |row| {
                    counts.add(row[1].as_str().unwrap_or_default(), 1);
                    chain.execution(connection, row)
                })?
                .transpose()?;
            }
            counts.write(connection)?;
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
        let forgotten = self.write_together(move |connection| {
            let mut delete = connection.prepare_cached(PURGE)?;
            let of_row = |row: &rusqlite::Row<'_>| Ok((parsed::<OwnerId>(&row.get::<_, String>(0)?)?, row.get(1)?));
            let rows = delete.query_map(params![begun.as_bytes(), before, limit, PURGED_BYTES], of_row)?;
            rows.collect::<rusqlite::Result<Vec<(OwnerId, u64)>>>()
        });
        let forgotten = forgotten.await?;
        for (owner, bytes) in &forgotten {
            self.kept.subtract(owner, *bytes);
        }
        Ok(forgotten.len())
    }
}

/// Inserts the row of an execution that begins.
pub(in crate::store) fn open(
    connection: &Connection,
    execution: &Execution,
    args: &ArgsRecord,
) -> rusqlite::Result<()> {
    applying::put(connection, &recording::opening(execution, args)?)
}
