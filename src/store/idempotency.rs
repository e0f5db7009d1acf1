//! Which request of a key became which execution (`idempotency`).

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use crate::model::{Digest, Error, Execution, ExecutionId, Idempotency, KeyId};

use super::executions::ArgsRecord;
use super::{Store, executions, queued, together};

/// A request that became an execution.
#[derive(Clone, Copy, Debug)]
pub struct Claimed {
    /// Which execution.
    pub execution: ExecutionId,
    /// SHA-256 of the request.
    pub request: Digest,
}

/// A claim that an execution is the one for a request.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The request.
    pub idempotency: Idempotency,
    /// Claims from before this time, in milliseconds since the Unix epoch, no longer count.
    pub since: i64,
    /// What the executor needs to begin it again after a crash, where it is to.
    pub again: Option<Arc<str>>,
}

impl Store {
    /// The execution that a request of this key became at or after `since`, in milliseconds
    /// since the Unix epoch.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn claimed(&self, key: KeyId, idempotency: Idempotency, since: i64) -> Result<Option<Claimed>, Error> {
        self.read(move |connection| find(connection, &key, &idempotency, since)).await
    }

    /// [`Store::open_execution`] for a request that may come twice: the first claim opens its
    /// execution, and all others are told of that one.
    pub fn open_claimed_execution(
        &self,
        execution: Arc<Execution>,
        args: Arc<ArgsRecord>,
        claim: Claim,
        then: impl FnOnce(Result<Option<Claimed>, Error>) + Send + 'static,
    ) {
        let work = move |connection: &Connection| {
            let Claim { idempotency, since, again } = &claim;
            if let Some(first) = find(connection, &execution.key_id, idempotency, *since)? {
                return Ok(Some(first));
            }
            executions::open(connection, &execution, &args)?;
            claim_for(connection, &execution, idempotency)?;
            if let Some(request) = again {
                queued::remember(connection, execution.id, request)?;
            }
            Ok(None)
        };
        self.writer.send(together(work), then);
    }

    /// Forgets claims from before `before`, in milliseconds since the Unix epoch; at most
    /// `limit`; gives how many.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn purge_claims(&self, before: i64, limit: u32) -> Result<usize, Error> {
        self.write(move |connection| {
            let delete = "DELETE FROM idempotency WHERE (key_id, word) IN
                          (SELECT key_id, word FROM idempotency WHERE created_at < ?1 LIMIT ?2)";
            connection.prepare_cached(delete)?.execute(params![before, limit])
        })
        .await
    }
}

/// Claims a request for an execution.
pub(super) fn claim_for(
    connection: &Connection,
    execution: &Execution,
    idempotency: &Idempotency,
) -> rusqlite::Result<()> {
    let insert = "INSERT OR REPLACE INTO idempotency VALUES (?1, ?2, ?3, ?4, ?5)";
    let claimed = connection.prepare_cached(insert)?.execute(params![
        execution.key_id.as_str(),
        idempotency.key.as_str(),
        idempotency.request.as_bytes(),
        execution.id.as_bytes(),
        execution.created_at,
    ]);
    claimed.map(drop)
}

/// The execution that has the claim.
pub(super) fn find(
    connection: &Connection,
    key: &KeyId,
    idempotency: &Idempotency,
    since: i64,
) -> rusqlite::Result<Option<Claimed>> {
    let select = "SELECT execution_id, request FROM idempotency WHERE key_id = ?1 AND word = ?2 AND created_at >= ?3";
    let mut select = connection.prepare_cached(select)?;
    let of_row = |row: &rusqlite::Row<'_>| {
        Ok(Claimed { execution: ExecutionId::from_bytes(row.get(0)?), request: Digest::from_bytes(row.get(1)?) })
    };
    select.query_row(params![key.as_str(), idempotency.key.as_str(), since], of_row).optional()
}
