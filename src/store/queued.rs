//! Executions that wait for their turn (`queued_requests`): what they need to begin, also after a
//! restart. The row goes when the run begins, or ends before that; where the run is to begin again
//! after a crash, it stays until the end.

use std::sync::Arc;

use rusqlite::{Connection, params};

use crate::model::{Digest, Error, Execution, ExecutionId};

use super::executions::{ArgsRecord, place, queue_us, row};
use super::idempotency::{claim_for, find};
use super::{Claim, Claimed, Store, executions, together};

/// An execution that waits.
#[derive(Clone, Debug)]
pub struct QueuedExecution {
    /// Its record.
    pub execution: Arc<Execution>,
    /// What goes in.
    pub args: Arc<ArgsRecord>,
    /// What the executor needs to begin it, as the executor wrote it.
    pub request: Arc<str>,
}

impl Store {
    /// Writes down an execution that waits, unless an earlier one has the same claim, of which
    /// `then` is told. Answers as [`Store::open_execution`] does.
    pub fn queue_execution(
        &self,
        queued: QueuedExecution,
        claim: Option<Claim>,
        then: impl FnOnce(Result<Option<Claimed>, Error>) + Send + 'static,
    ) {
        let work = move |connection: &Connection| {
            let QueuedExecution { execution, args, request } = &queued;
            if let Some(Claim { idempotency, since, .. }) = &claim {
                if let Some(first) = find(connection, &execution.key_id, idempotency, *since)? {
                    return Ok(Some(first));
                }
                claim_for(connection, execution, idempotency)?;
            }
            executions::open(connection, execution, args)?;
            remember(connection, execution.id, request)?;
            Ok(None)
        };
        self.writer.send(together(work), then);
    }

    /// Writes down that an execution begins which waited; its status, start and time in the queue
    /// are as `execution` has them. If a crash interrupts it, it begins `again`. Answers as
    /// [`Store::open_execution`] does.
    pub fn start_execution(
        &self,
        execution: Arc<Execution>,
        again: bool,
        then: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        let work = move |connection: &Connection| {
            let id = execution.id;
            connection
                .prepare_cached(
                    "UPDATE open_executions SET status = ?1, started_at = ?2, queue_us = ?3 WHERE place = ?4 AND id = ?5",
                )?
                .execute(params![
                    execution.status.as_str(),
                    execution.started_at,
                    queue_us(&execution.usage),
                    place(id),
                    id.as_bytes(),
                ])?;
            if again { Ok(()) } else { forget(connection, id) }
        };
        self.writer.send(together(work), then);
    }

    /// Every execution that waits, or this one if it does, in the order in which they came.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn queued_executions(&self, only: Option<ExecutionId>) -> Result<Vec<QueuedExecution>, Error> {
        self.read_settled(move |connection| {
            let mut query = connection.prepare(row::WAITING)?;
            let waiting = query.query_map([only.as_ref().map(ExecutionId::as_bytes)], |row| {
                let args = ArgsRecord {
                    digest: Digest::from_bytes(row.get("args_sha256")?),
                    bytes: row.get("args_bytes")?,
                    copy: row.get("args_copy")?,
                };
                let request: String = row.get("request")?;
                let (execution, args) = (Arc::new(row::execution(row)?), Arc::new(args));
                Ok(QueuedExecution { execution, args, request: request.into() })
            })?;
            waiting.collect()
        })
        .await
    }
}

/// Remembers what an execution needs to begin.
pub(super) fn remember(connection: &Connection, id: ExecutionId, request: &str) -> rusqlite::Result<()> {
    let mut insert =
        connection.prepare_cached("INSERT INTO queued_requests (execution_id, request) VALUES (?1, ?2)")?;
    insert.execute(params![id.as_bytes(), request]).map(drop)
}

/// Forgets what an execution needs to begin.
pub(super) fn forget(connection: &Connection, id: ExecutionId) -> rusqlite::Result<()> {
    let mut delete = connection.prepare_cached("DELETE FROM queued_requests WHERE execution_id = ?1")?;
    delete.execute(params![id.as_bytes()]).map(drop)
}
