//! Which webhooks are still to be told of the end of which executions (`webhook_outbox`). A row is written
//! in the same transaction as the end itself, and goes when the webhook has said that it knows.

use rusqlite::{Connection, OptionalExtension, params};

use crate::model::{Error, ExecutionId, InterceptorId};

use super::Store;

/// Most dead letters of one webhook; the oldest go first.
const MOST_DEAD: u32 = 10_000;

/// Something that a webhook is to be told now.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Of which execution.
    pub execution: ExecutionId,
    /// How often it was tried.
    pub attempts: u32,
}

/// Something that a webhook could not be told.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Its number among those of the webhook.
    pub number: u64,
    /// Of which execution.
    pub execution: ExecutionId,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it was given up.
    pub problem: String,
    /// When, in milliseconds since the Unix epoch.
    pub at: i64,
}

impl Store {
    /// What a webhook is to be told by now, at most `limit`, and when the next is due if there is nothing.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn due_deliveries(
        &self,
        id: InterceptorId,
        now: i64,
        limit: u32,
    ) -> Result<(Vec<Delivery>, Option<i64>), Error> {
        self.read_settled(move |connection| {
            let text = "SELECT execution_id, attempts FROM webhook_outbox
                        WHERE interceptor_id = ?1 AND dead IS NULL AND due_at <= ?2 ORDER BY due_at LIMIT ?3";
            let mut query = connection.prepare_cached(text)?;
            let due = query.query_map(params![id.as_bytes(), now, limit], |row| {
                Ok(Delivery { execution: ExecutionId::from_bytes(row.get(0)?), attempts: row.get(1)? })
            });
            let due = due?.collect::<rusqlite::Result<Vec<_>>>()?;
            let next = "SELECT min(due_at) FROM webhook_outbox WHERE interceptor_id = ?1 AND dead IS NULL";
            let next = connection.prepare_cached(next)?.query_row([id.as_bytes()], |row| row.get(0))?;
            Ok((due, next))
        })
        .await
    }

    /// Forgets what a webhook knows now.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn delivered(&self, id: InterceptorId, execution: ExecutionId) -> Result<(), Error> {
        self.write(move |connection| {
            connection
                .prepare_cached("DELETE FROM webhook_outbox WHERE interceptor_id = ?1 AND execution_id = ?2")?
                .execute(params![id.as_bytes(), execution.as_bytes()])
                .map(drop)
        })
        .await
    }

    /// Notes that a webhook was not told, and when that is tried again; with nothing for that time, it is given
    /// up at `now`.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn not_delivered(
        &self,
        (id, execution): (InterceptorId, ExecutionId),
        problem: String,
        (now, again_at): (i64, Option<i64>),
    ) -> Result<(), Error> {
        self.write_together(move |connection| {
            connection
                .prepare_cached(
                    "UPDATE webhook_outbox SET attempts = attempts + 1, due_at = ?3, problem = ?4
                     WHERE interceptor_id = ?1 AND execution_id = ?2",
                )?
                .execute(params![id.as_bytes(), execution.as_bytes(), again_at.unwrap_or(now), problem])?;
            if again_at.is_none() { bury(connection, (id, execution)) } else { Ok(()) }
        })
        .await
    }

    /// What a webhook could not be told, the oldest first, behind number `after` and at most `limit`.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn dead_letters(&self, id: InterceptorId, after: u64, limit: u32) -> Result<Vec<DeadLetter>, Error> {
        self.read(move |connection| {
            let text = "SELECT dead, execution_id, attempts, coalesce(problem, ''), due_at FROM webhook_outbox
                        WHERE interceptor_id = ?1 AND dead > ?2 ORDER BY dead LIMIT ?3";
            let mut query = connection.prepare_cached(text)?;
            let letters = query.query_map(params![id.as_bytes(), after, limit], |row| {
                Ok(DeadLetter {
                    number: row.get(0)?,
                    execution: ExecutionId::from_bytes(row.get(1)?),
                    attempts: row.get(2)?,
                    problem: row.get(3)?,
                    at: row.get(4)?,
                })
            });
            letters?.collect()
        })
        .await
    }

    /// How many dead letters a webhook has.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn count_dead_letters(&self, id: InterceptorId) -> Result<u64, Error> {
        self.read(move |connection| {
            let text = "SELECT count(*) FROM webhook_outbox WHERE interceptor_id = ?1 AND dead IS NOT NULL";
            connection.prepare_cached(text)?.query_row([id.as_bytes()], |row| row.get(0))
        })
        .await
    }

    /// Has a dead letter tried again, from the first attempt on; gives the execution it is about.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn revive_dead_letter(&self, id: InterceptorId, number: u64) -> Result<Option<ExecutionId>, Error> {
        self.write(move |connection| {
            let text = "UPDATE webhook_outbox SET dead = NULL, attempts = 0, due_at = 0
                        WHERE interceptor_id = ?1 AND dead = ?2 RETURNING execution_id";
            let mut update = connection.prepare_cached(text)?;
            update.query_row(params![id.as_bytes(), number], |row| row.get(0)).optional()
        })
        .await
        .map(|found| found.map(ExecutionId::from_bytes))
    }

    /// Has webhooks told of the executions that a dead host left open, before these are ended; `told` are the
    /// webhooks, each with the owner whose executions it is told of, if not everybody's.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn tell_of_interrupted(&self, told: Vec<(InterceptorId, Option<String>)>) -> Result<(), Error> {
        if told.is_empty() {
            return Ok(());
        }
        self.write_together(move |connection| {
            let text = "INSERT OR IGNORE INTO webhook_outbox (interceptor_id, execution_id, attempts, due_at)
                        SELECT ?1, id, 0, 0 FROM open_executions WHERE (?2 IS NULL OR owner = ?2)
                        AND NOT (status = 'pending' AND id IN (SELECT execution_id FROM queued_requests))";
            let mut insert = connection.prepare(text)?;
            told.iter().try_for_each(|(id, owner)| insert.execute(params![id.as_bytes(), owner]).map(drop))
        })
        .await
    }
}

/// Gives up telling a webhook of an execution.
fn bury(connection: &Connection, (id, execution): (InterceptorId, ExecutionId)) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE webhook_outbox SET dead =
             (SELECT coalesce(max(dead), 0) + 1 FROM webhook_outbox WHERE interceptor_id = ?1)
             WHERE interceptor_id = ?1 AND execution_id = ?2",
        )?
        .execute(params![id.as_bytes(), execution.as_bytes()])?;
    connection
        .prepare_cached(
            "DELETE FROM webhook_outbox WHERE interceptor_id = ?1 AND dead <=
             (SELECT max(dead) FROM webhook_outbox WHERE interceptor_id = ?1) - ?2",
        )?
        .execute(params![id.as_bytes(), MOST_DEAD])
        .map(drop)
}
