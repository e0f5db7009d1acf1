//! Checkpoints: signed words on where the chain stood. Who can write the database but has not the
//! key cannot make one for another chain.

use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

use crate::model::{Clock, Error};
use crate::store::Store;
use crate::store::fault::fault;

use super::append::{Chain, Head, head, last_record};
use super::record::{Hex, Time};
use super::{Act, AuditPublicKey, Signer, export};

/// How many records may be without a checkpoint behind them while the host is busy.
const EVERY: i64 = 1000;

/// What is signed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Word<'a> {
    v: u8,
    kind: &'a str,
    /// Where the export began, at the end of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<i64>,
    seq: i64,
    hash: Hex<'a>,
    at: Time,
}

impl<'a> Word<'a> {
    pub(super) fn checkpoint(head: &'a Head, at: i64) -> String {
        Self { v: 1, kind: "checkpoint", from: None, seq: head.seq, hash: Hex(&head.hash), at: Time(at) }.text()
    }

    pub(super) fn end(from: i64, head: &'a Head, at: i64) -> String {
        Self { v: 1, kind: "end", from: Some(from), seq: head.seq, hash: Hex(&head.hash), at: Time(at) }.text()
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A checkpoint as it is kept.
pub(super) struct Checkpoint {
    pub(super) head: Head,
    pub(super) at: i64,
    pub(super) key: [u8; 32],
    pub(super) signature: [u8; 64],
}

pub(super) const COLUMNS: &str = "seq, hash, at, public_key, signature";

impl Checkpoint {
    pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let head = super::append::read(row)?;
        Ok(Self { head, at: row.get(2)?, key: row.get(3)?, signature: row.get(4)? })
    }

    pub(super) fn text(&self) -> String {
        Word::checkpoint(&self.head, self.at)
    }
}

/// Begins the chain of a database that has none; writes down that the key is another one.
///
/// # Errors
///
/// As any write.
pub(in crate::store) fn begin(connection: &Connection, signer: &Signer) -> Result<(), Error> {
    begun(connection, signer).map_err(fault)
}

fn begun(connection: &Connection, signer: &Signer) -> rusqlite::Result<()> {
    let act = |act| Act { target: Some(format!("{:?}", signer.public())), ..Act::of_host(act, Clock::System.now_ms()) };
    if head(connection)?.seq == 0 {
        let before: i64 = connection.query_row("SELECT count(*) FROM ended_executions", [], |row| row.get(0))?;
        let begin = act("audit.begin").with(&serde_json::json!({ "executionsBefore": before }));
        let transaction = connection.unchecked_transaction()?;
        Chain::default().act(&transaction, &begin)?;
        return transaction.commit();
    }
    let last = last(connection)?;
    if last.is_some_and(|last| last.key != *signer.public().bytes()) {
        tracing::warn!("The audit is signed with another key from now on; keep the old public key for what was before");
        let transaction = connection.unchecked_transaction()?;
        Chain::default().act(&transaction, &act("audit.key"))?;
        return transaction.commit();
    }
    Ok(())
}

fn last(connection: &Connection) -> rusqlite::Result<Option<Checkpoint>> {
    let text = format!("SELECT {COLUMNS} FROM audit_checkpoints ORDER BY seq DESC LIMIT 1");
    connection.prepare_cached(&text)?.query_row([], Checkpoint::read).optional()
}

/// Signs where the chain stands, unless that is signed; gives where that is. Times never go back.
///
/// # Errors
///
/// As any write.
pub(in crate::store) fn checkpoint(connection: &Connection, signer: &Signer, now: i64) -> rusqlite::Result<()> {
    let (head, last) = (head(connection)?, last(connection)?);
    let is_signed = last.as_ref().is_some_and(|last| last.head == head && last.key == *signer.public().bytes());
    if head.seq == 0 || is_signed {
        return Ok(());
    }
    let at = last.map_or(now, |last| last.at.max(now));
    let signature = signer.sign(&Word::checkpoint(&head, at));
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO audit_checkpoints (seq, at, hash, public_key, signature)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![head.seq, at, head.hash, signer.public().bytes(), signature])
        .map(drop)
}

/// The same once enough has gathered behind `signed`, the last that is known to be signed, which is
/// brought up to date.
///
/// # Errors
///
/// As any write.
pub(in crate::store) fn checkpoint_when_due(
    connection: &Connection,
    signer: &Signer,
    signed: &mut i64,
) -> rusqlite::Result<()> {
    let Some(head) = last_record(connection)? else { return Ok(()) };
    if head.seq - *signed < EVERY {
        return Ok(());
    }
    let known = last(connection)?.map_or(0, |last| last.head.seq);
    if head.seq - known >= EVERY {
        checkpoint(connection, signer, Clock::System.now_ms())?;
        // Behind what may be rolled back: then it is asked for again.
        return Ok(());
    }
    *signed = known;
    Ok(())
}

/// Whether the newest records are what they were, and nothing is missing behind the last checkpoint; gives
/// the number of the last record, or what is wrong.
///
/// # Errors
///
/// As any read.
pub(in crate::store) fn head_is_sound(connection: &Connection) -> rusqlite::Result<Result<i64, String>> {
    let Some(end) = last_record(connection)? else { return Ok(Ok(0)) };
    if let Some(last) = last(connection)? {
        if last.head.seq > end.seq {
            return Ok(Err(format!("records behind {} are gone, of which a checkpoint knows", end.seq)));
        }
        let kept = "SELECT seq, hash FROM audit_chain WHERE seq = ?1";
        let kept = connection.prepare_cached(kept)?.query_row([last.head.seq], super::append::read).optional()?;
        if kept.is_some_and(|kept| kept != last.head) {
            return Ok(Err(format!("record {} is not the one that was signed", last.head.seq)));
        }
        if !AuditPublicKey::of_bytes(last.key).has_signed(&last.text(), &last.signature) {
            return Ok(Err(format!("the signature of the checkpoint at {} is wrong", last.head.seq)));
        }
    }
    export::newest_are_sound(connection, end)
}

impl Store {
    /// Signs where the chain stands, unless that is signed. `now` is in milliseconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn checkpoint(&self, now: i64) -> Result<(), Error> {
        let signer = self.signer.clone();
        self.writer.run(move |connection| checkpoint(connection, &signer, now)).await
    }

    /// What checkpoints are checked with.
    pub fn audit_key(&self) -> AuditPublicKey {
        self.signer.public()
    }
}
