//! The chain as lines of JSON, which tell the whole of what they are checked with but for the key.

use std::fmt::Write as _;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::model::{Code, Error};
use crate::store::Store;
use crate::store::executions::ROW;

use super::Act;
use super::append::{self, Head};
use super::checkpoints::{self, Checkpoint, Word};
use super::record::{self, BYTES, COLUMNS, Hash, OF_ACT, OF_EXECUTION, Row};

/// Records that are read at one time.
const PAGE: i64 = 200;
/// Newest records that a short look goes over.
const NEWEST: i64 = 16;

/// What a commitment stands for, as long as that is known.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Open {
    pub(super) salt: String,
    pub(super) owner: Option<String>,
    pub(super) key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<String>,
    pub(super) details: Vec<Option<String>>,
}

/// An export that is under way.
pub struct AuditExport {
    store: Store,
    /// The number of the record before the first one.
    from: i64,
    /// That of the last one that was given.
    given: i64,
    end: Head,
    at: i64,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Begins,
    Goes,
    Ended,
}

impl Store {
    /// Begins an export of everything up to now, from the last checkpoint before `since` on, or from the
    /// first record that is kept. Times are milliseconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// As any write: the end is signed.
    pub async fn audit_export(&self, since: Option<i64>, now: i64) -> Result<AuditExport, Error> {
        let signer = self.signer.clone();
        let begun = self.writer.run(move |connection| {
            checkpoints::checkpoint(connection, &signer, now)?;
            Ok((start(connection, since)?, append::head(connection)?))
        });
        let (from, end) = begun.await?;
        Ok(AuditExport { store: self.clone(), from, given: from, end, at: now, state: State::Begins })
    }
}

impl AuditExport {
    /// The next lines; none behind the last.
    ///
    /// # Errors
    ///
    /// `unavailable` if what comes next was removed meanwhile, as retention does; and as any read.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        if self.state == State::Ended {
            return Ok(None);
        }
        let (begins, given, end) = (self.state == State::Begins, self.given, self.end);
        self.state = State::Goes;
        let page = self.store.read(move |connection| page(connection, begins, (given, end.seq)));
        let (lines, last) = page.await?;
        self.given = last.unwrap_or(given);
        if last.is_none() && given < end.seq {
            let removed = self.store.read(append::last_record).await?.is_none_or(|last| last.seq >= end.seq);
            if removed {
                let detail = "records were removed while they were exported (retention.audit); export again";
                return Err(Error::new(Code::Unavailable, detail));
            }
        }
        if !lines.is_empty() {
            return Ok(Some(lines));
        }
        self.state = State::Ended;
        Ok(Some(self.last_line()))
    }

    fn last_line(&self) -> String {
        let text = Word::end(self.from, &self.end, self.at);
        signed("end", &text, (self.store.signer.public().bytes(), &self.store.signer.sign(&text)))
    }
}

/// Before which record an export begins.
fn start(connection: &Connection, since: Option<i64>) -> rusqlite::Result<i64> {
    let first = "SELECT seq FROM audit_chain ORDER BY seq LIMIT 1";
    let first: Option<i64> = connection.prepare_cached(first)?.query_row([], |row| row.get(0)).optional()?;
    let kept = match first {
        Some(1) => 0,
        Some(first) => {
            let checkpoint = "SELECT coalesce(min(seq), ?1) FROM audit_checkpoints WHERE seq >= ?1";
            connection.prepare_cached(checkpoint)?.query_row([first - 1], |row| row.get(0))?
        }
        None => append::head(connection)?.seq,
    };
    let Some(since) = since else { return Ok(kept) };
    let before = "SELECT coalesce(max(seq), 0) FROM audit_checkpoints WHERE seq <
                  (SELECT coalesce(min(seq), 9223372036854775807) FROM audit_checkpoints WHERE at >= ?1)";
    let before: i64 = connection.prepare_cached(before)?.query_row([since], |row| row.get(0))?;
    Ok(before.max(kept))
}

/// Lines behind the record `after`, with the number of their last record; not behind `end`.
fn page(connection: &Connection, begins: bool, (after, end): (i64, i64)) -> rusqlite::Result<(String, Option<i64>)> {
    let mut lines = String::new();
    let mut query = connection.prepare_cached(
        "SELECT seq, execution_id, salt, commitments, hash FROM audit_chain WHERE seq > ?1 AND seq <= ?2
         ORDER BY seq LIMIT ?3",
    )?;
    let records = query.query_map(params![after, end, PAGE], Kept::read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let last = records.last().map(|record| record.seq);
    let text =
        format!("SELECT {} FROM audit_checkpoints WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq", checkpoints::COLUMNS);
    let mut query = connection.prepare_cached(&text)?;
    let from = if begins { after } else { after + 1 };
    let mut signs = query.query_map([from, last.unwrap_or(after)], Checkpoint::read)?.peekable();
    let mut put_signs = |lines: &mut String, up_to: i64| -> rusqlite::Result<()> {
        while signs.peek().is_some_and(|sign| sign.as_ref().map_or(true, |sign| sign.head.seq <= up_to)) {
            if let Some(sign) = signs.next().transpose()? {
                lines.push_str(&signed("checkpoint", &sign.text(), (&sign.key, &sign.signature)));
            }
        }
        Ok(())
    };
    put_signs(&mut lines, after)?;
    for record in records {
        let (text, open) = record.told(connection)?;
        let open = serde_json::to_string(&open).unwrap_or_default();
        let _ = writeln!(lines, r#"{{"hash":"{}","open":{open},"record":{text}}}"#, hex::encode(record.hash));
        put_signs(&mut lines, record.seq)?;
    }
    Ok((lines, last))
}

fn signed(what: &str, text: &str, (key, signature): (&[u8; 32], &[u8; 64])) -> String {
    let (key, signature) = (hex::encode(key), hex::encode(signature));
    format!("{{\"key\":\"{key}\",\"signature\":\"{signature}\",\"{what}\":{text}}}\n")
}

/// A row of the chain.
pub(super) struct Kept {
    pub(super) seq: i64,
    pub(super) execution: Option<[u8; 16]>,
    salt: Option<Hash>,
    commitments: Option<Vec<u8>>,
    hash: Hash,
}

impl Kept {
    pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(0)?,
            execution: row.get(1)?,
            salt: row.get(2)?,
            commitments: row.get(3)?,
            hash: row.get(4)?,
        })
    }

    /// The record's text, and what it commits to where that is known.
    fn told(&self, connection: &Connection) -> rusqlite::Result<(String, Option<Open>)> {
        let told = match self.execution {
            Some(id) => with_execution(connection, &id, |row| self.execution_told(row))?,
            None => act(connection, self.seq)?.map(|act| self.act_told(&act)),
        };
        Ok(told.unwrap_or_else(|| (format!(r#"{{"v":1,"seq":{},"kind":"missing"}}"#, self.seq), None)))
    }

    fn execution_told(&self, row: &Row<'_>) -> (String, Option<Open>) {
        let commitments = match &self.salt {
            Some(salt) => record::commit(salt, OF_EXECUTION, &record::of_execution(row)),
            None => self.kept_commitments(),
        };
        let open = self.salt.map(|salt| Open {
            salt: hex::encode(salt),
            owner: told(row[1]),
            key: told(row[7]),
            session: told(row[9]),
            args: record::bytes(row[15]).map(hex::encode),
            output: record::bytes(row[28]).map(hex::encode),
            details: [17, 30, 25, 26, 27, 31].map(|at| told(row[at])).to_vec(),
            target: None,
        });
        (record::execution_text(self.seq, row, &commitments), open)
    }

    fn act_told(&self, act: &Act) -> (String, Option<Open>) {
        let commitments = match &self.salt {
            Some(salt) => record::commit(salt, OF_ACT, &record::of_act(act)),
            None => self.kept_commitments(),
        };
        let open = self.salt.map(|salt| Open {
            salt: hex::encode(salt),
            owner: act.owner.as_ref().map(ToString::to_string),
            key: act.key.as_ref().map(ToString::to_string),
            target: act.target.clone(),
            details: vec![act.details.clone()],
            ..Open::default()
        });
        (record::act_text(self.seq, act, &commitments), open)
    }

    fn kept_commitments<const N: usize>(&self) -> [Hash; N] {
        let mut kept = self.commitments.as_deref().unwrap_or_default().chunks_exact(BYTES);
        std::array::from_fn(|_| kept.next().and_then(|bytes| bytes.try_into().ok()).unwrap_or_default())
    }

    /// The commitments, all in one.
    pub(super) fn to_commitments(&self, connection: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
        let Some(salt) = &self.salt else { return Ok(None) };
        Ok(match self.execution {
            Some(id) => with_execution(connection, &id, |row| {
                record::commit(salt, OF_EXECUTION, &record::of_execution(row)).concat()
            })?,
            None => act(connection, self.seq)?.map(|act| record::commit(salt, OF_ACT, &record::of_act(&act)).concat()),
        })
    }
}

fn told(value: ValueRef<'_>) -> Option<String> {
    record::bytes(value).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// Does something with the row of an execution, if it is there.
pub(in crate::store) fn with_execution<R>(
    connection: &Connection,
    id: &[u8; 16],
    work: impl FnOnce(&Row<'_>) -> R,
) -> rusqlite::Result<Option<R>> {
    let mut query = connection.prepare_cached(ROW)?;
    let mut rows = query.query([id])?;
    let Some(found) = rows.next()? else { return Ok(None) };
    let mut row = [ValueRef::Null; COLUMNS];
    for (at, value) in row.iter_mut().enumerate() {
        *value = found.get_ref(at)?;
    }
    Ok(Some(work(&row)))
}

fn act(connection: &Connection, seq: i64) -> rusqlite::Result<Option<Act>> {
    let text = "SELECT at, act, door, count, owner, key_id, target, details FROM admin_acts WHERE seq = ?1";
    connection.prepare_cached(text)?.query_row([seq], Act::read).optional()
}

/// Whether the newest records are what their hashes say, up to `end`.
pub(super) fn newest_are_sound(connection: &Connection, end: Head) -> rusqlite::Result<Result<i64, String>> {
    let mut query = connection.prepare_cached(
        "SELECT seq, execution_id, salt, commitments, hash FROM audit_chain WHERE seq >= ?1 ORDER BY seq",
    )?;
    let records = query.query_map([end.seq - NEWEST], Kept::read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    for two in records.windows(2) {
        let (before, record) = (&two[0], &two[1]);
        let (text, _) = record.told(connection)?;
        if record.seq != before.seq + 1 || record.hash != record::hash(&before.hash, &text) {
            return Ok(Err(format!("record {} is not what was written down", record.seq)));
        }
    }
    Ok(Ok(end.seq))
}
