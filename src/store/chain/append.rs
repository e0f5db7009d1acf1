//! Adding records to the chain, in the transaction that is open.

use rusqlite::{Connection, OptionalExtension, params};

use super::Act;
use super::record::{self, BYTES, Hash, OF_ACT, OF_EXECUTION, Row};

/// Where a chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The number of the last record; 0 if there is none.
    pub(super) seq: i64,
    /// Its hash.
    pub(super) hash: Hash,
}

/// The end of the chain while records are added to it within one transaction. What is rolled back
/// takes its records along, and the `Chain` must not be used after that.
#[derive(Default)]
pub(in crate::store) struct Chain(Option<Head>);

impl Chain {
    /// Adds the record of an execution that ended. Its row is in the same transaction.
    ///
    /// # Errors
    ///
    /// As any write.
    pub(in crate::store) fn execution(&mut self, connection: &Connection, row: &Row<'_>) -> rusqlite::Result<()> {
        let (head, salt) = (self.head(connection)?, salt()?);
        let seq = head.seq + 1;
        let commitments = record::commit(&salt, OF_EXECUTION, &record::of_execution(row));
        let hash = record::hash(&head.hash, &record::execution_text(seq, row, &commitments));
        insert(connection, Head { seq, hash }, record::bytes(row[0]), &salt)?;
        self.0 = Some(Head { seq, hash });
        Ok(())
    }

    /// Adds the record of an act.
    ///
    /// # Errors
    ///
    /// As any write.
    pub(in crate::store) fn act(&mut self, connection: &Connection, act: &Act) -> rusqlite::Result<()> {
        let (head, salt) = (self.head(connection)?, salt()?);
        let seq = head.seq + 1;
        let commitments = record::commit(&salt, OF_ACT, &record::of_act(act));
        let hash = record::hash(&head.hash, &record::act_text(seq, act, &commitments));
        insert(connection, Head { seq, hash }, None, &salt)?;
        act.insert(connection, seq)?;
        self.0 = Some(Head { seq, hash });
        Ok(())
    }

    fn head(&self, connection: &Connection) -> rusqlite::Result<Head> {
        self.0.map_or_else(|| head(connection), Ok)
    }
}

/// Where the chain ends. Its last records may have been kept for long enough, and then the last
/// checkpoint stands for them.
pub(super) fn head(connection: &Connection) -> rusqlite::Result<Head> {
    let last = last_record(connection)?;
    let signed = "SELECT seq, hash FROM audit_checkpoints ORDER BY seq DESC LIMIT 1";
    let signed = connection.prepare_cached(signed)?.query_row([], read).optional()?;
    let ends = [last, signed].into_iter().flatten().max_by_key(|head| head.seq);
    Ok(ends.unwrap_or(Head { seq: 0, hash: [0; BYTES] }))
}

/// The last record that is there.
pub(super) fn last_record(connection: &Connection) -> rusqlite::Result<Option<Head>> {
    let last = "SELECT seq, hash FROM audit_chain ORDER BY seq DESC LIMIT 1";
    connection.prepare_cached(last)?.query_row([], read).optional()
}

pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Head> {
    Ok(Head { seq: row.get(0)?, hash: row.get(1)? })
}

fn insert(connection: &Connection, head: Head, execution: Option<&[u8]>, salt: &Hash) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO audit_chain (seq, execution_id, salt, hash) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![head.seq, execution, salt, head.hash])
        .map(drop)
}

/// Random, so that nobody finds a value by trying all that it may be.
fn salt() -> rusqlite::Result<Hash> {
    let mut salt = [0; BYTES];
    let filled = aws_lc_rs::rand::fill(&mut salt);
    filled.map_err(|_| rusqlite::Error::ToSqlConversionFailure("there is no randomness".into()))?;
    Ok(salt)
}
