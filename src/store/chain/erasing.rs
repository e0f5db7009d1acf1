//! Erasing an owner: what is its own goes, and of the audit what tells whose it was. Commitments
//! without their salts tell nobody anything, and the chain is as whole as before.
//!
//! That it is to be done is written down first. Each step can be done again, so that a crash in
//! the middle leaves nothing that the next start does not go on with.

use rusqlite::{Connection, params};

use crate::model::{Digest, Error, ExecutionId, KeyId, OwnerId, SkillId};
use crate::store::executions::Counts;
use crate::store::fault::fault;
use crate::store::{Store, connect, parsed};

use super::export::Kept;

/// Records, and executions of before the chain, that one step looks at: others wait meanwhile.
const STEP: i64 = 1000;

/// Tables of what owners have, whose rows go.
const OWNED: [&str; 8] =
    ["skill_aliases", "skills", "component_owners", "secrets", "kv_entries", "kv_usage", "interceptors", "usage_days"];

/// An owner that is being erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// Who.
    pub owner: OwnerId,
    /// Who its records are of from then on.
    pub pseudonym: OwnerId,
}

impl Store {
    /// Writes down that an owner is to be erased; gives what was written down before, if it was.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn begin_erasure(&self, owner: OwnerId, at: i64) -> Result<Erasure, Error> {
        self.write_together(move |connection| {
            let pseudonym = format!("erased-{}", ExecutionId::generate());
            connection.execute(
                "INSERT OR IGNORE INTO erasures (owner, pseudonym, begun_at) VALUES (?1, ?2, ?3)",
                params![owner.as_str(), pseudonym, at],
            )?;
            let kept = "SELECT pseudonym FROM erasures WHERE owner = ?1";
            let pseudonym: String = connection.query_row(kept, [owner.as_str()], |row| row.get(0))?;
            Ok(Erasure { pseudonym: parsed(&pseudonym)?, owner })
        })
        .await
    }

    /// Owners whose erasing was begun and has not ended.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn erasures(&self) -> Result<Vec<Erasure>, Error> {
        self.read(|connection| {
            let mut query = connection.prepare("SELECT owner, pseudonym FROM erasures ORDER BY begun_at")?;
            let read = |row: &rusqlite::Row<'_>| {
                let text = |at| row.get::<_, String>(at);
                Ok(Erasure { owner: parsed(&text(0)?)?, pseudonym: parsed(&text(1)?)? })
            };
            query.query_map([], read)?.collect()
        })
        .await
    }

    /// Every owner that has something, with how many keys, skills and executions.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn owners(&self) -> Result<Vec<(OwnerId, [u64; 3])>, Error> {
        self.read_settled(|connection| {
            let mut query = connection.prepare(
                "WITH known (owner) AS
                 (SELECT owner FROM execution_counts UNION SELECT owner FROM keys
                  UNION SELECT owner FROM skills UNION SELECT owner FROM interceptors UNION SELECT owner FROM secrets UNION SELECT owner FROM kv_usage
                  UNION SELECT owner FROM open_executions)
                 SELECT owner, (SELECT count(*) FROM keys k WHERE k.owner = known.owner AND revoked_at IS NULL),
                 (SELECT count(*) FROM skills s WHERE s.owner = known.owner AND deleted_at IS NULL),
                 (SELECT coalesce(max(ended), 0) FROM execution_counts c WHERE c.owner = known.owner)
                 FROM known ORDER BY owner",
            )?;
            let read = |row: &rusqlite::Row<'_>| {
                let owner: String = row.get(0)?;
                Ok((parsed(&owner)?, [row.get(1)?, row.get(2)?, row.get(3)?]))
            };
            query.query_map([], read)?.collect()
        })
        .await
    }

    /// Removes the rows of what an owner has, but for its keys and the audit; gives the digests of
    /// components that nobody has any more.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn erase_belongings(&self, owner: OwnerId) -> Result<Vec<Digest>, Error> {
        const OF_KEYS: &str = "key_id IN (SELECT id FROM keys WHERE owner = ?1)";
        self.write_together(move |connection| {
            overwriting(connection, |connection| {
                let owner = [owner.as_str()];
                connection
                    .execute("DELETE FROM skill_texts WHERE id IN (SELECT id FROM skills WHERE owner = ?1)", owner)?;
                for table in ["webhook_secrets", "webhook_outbox"] {
                    let of_owner = "interceptor_id IN (SELECT id FROM interceptors WHERE owner = ?1)";
                    connection.execute(&format!("DELETE FROM {table} WHERE {of_owner}"), owner)?;
                }
                for table in OWNED {
                    connection.execute(&format!("DELETE FROM {table} WHERE owner = ?1"), owner)?;
                }
                for table in ["idempotency", "key_days"] {
                    connection.execute(&format!("DELETE FROM {table} WHERE {OF_KEYS}"), owner)?;
                }
                let mut gone = connection.prepare(
                    "DELETE FROM components WHERE NOT EXISTS
                     (SELECT 1 FROM component_owners o WHERE o.digest = components.digest) RETURNING digest",
                )?;
                gone.query_map([], |row| row.get(0).map(Digest::from_bytes))?.collect()
            })
        })
        .await
    }

    /// Takes the owner out of the records behind `after`, some at a time; gives the number to go on
    /// from, and how many were the owner's. Nothing at the end.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn erase_records(&self, erasure: Erasure, after: i64) -> Result<Option<(i64, u64)>, Error> {
        self.write_together(move |connection| {
            let last = super::append::head(connection)?.seq;
            if after >= last {
                return Ok(None);
            }
            let up_to = (after + STEP).min(last);
            let erased = overwriting(connection, |connection| erase_between(connection, &erasure, (after, up_to)))?;
            Ok(Some((up_to, erased)))
        })
        .await
    }

    /// Takes the owner out of executions that are in no record, some at a time; gives how many. What ended behind
    /// the record `after` is in one, with which it has to be erased.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn erase_unrecorded(&self, erasure: Erasure, after: i64) -> Result<usize, Error> {
        self.write_together(move |connection| {
            overwriting(connection, |connection| {
                let mut query = connection.prepare(
                    "SELECT id FROM ended_executions WHERE owner = ?1 AND id NOT IN
                     (SELECT execution_id FROM audit_chain WHERE seq > ?3 AND execution_id IS NOT NULL) LIMIT ?2",
                )?;
                let ids = query.query_map(params![erasure.owner.as_str(), STEP, after], |row| row.get(0))?;
                let ids: Vec<[u8; 16]> = ids.collect::<rusqlite::Result<_>>()?;
                for id in &ids {
                    erase_execution(connection, &erasure, id)?;
                }
                moved(connection, &erasure, ids.len())?;
                Ok(ids.len())
            })
        })
        .await
    }

    /// Forgets the keys of an owner, and that it was to be erased; unless a run of it is there again, that began
    /// before its keys ended.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn end_erasure(&self, owner: OwnerId) -> Result<bool, Error> {
        let whose = owner.clone();
        let ended = self.write_together(move |connection| {
            let owner = [owner.as_str()];
            let left = "SELECT EXISTS (SELECT 1 FROM ended_executions WHERE owner = ?1)
                        OR EXISTS (SELECT 1 FROM open_executions WHERE owner = ?1)";
            if connection.query_row(left, owner, |row| row.get(0))? {
                return Ok(false);
            }
            overwriting(connection, |connection| {
                // Usage once more, as some of its runs may have ended since.
                for table in ["keys", "usage_days", "result_usage", "erasures"] {
                    connection.execute(&format!("DELETE FROM {table} WHERE owner = ?1"), owner)?;
                }
                Ok(true)
            })
        });
        if !ended.await? {
            return Ok(false);
        }
        self.kept.forget(&whose);
        // What was overwritten is in the file before the next one asks; if that cannot be now, it is soon.
        let path = self.readers.path.clone();
        let emptied = tokio::task::spawn_blocking(move || {
            connect(&path)?.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        });
        emptied.await.map_err(Error::internal)?.map_err(fault)?;
        Ok(true)
    }

    /// The executions that have not ended and that a key began, or that are of these skills.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn open_of_key(&self, key: KeyId, skills: Vec<SkillId>) -> Result<Vec<ExecutionId>, Error> {
        self.read_settled(move |connection| {
            let mut query = connection.prepare("SELECT id, key_id, skill_id FROM open_executions")?;
            let mut rows = query.query([])?;
            let mut open = Vec::new();
            while let Some(row) = rows.next()? {
                let skill = SkillId::from_bytes(row.get(2)?);
                if row.get_ref(1)?.as_str()? == key.as_str() || skills.contains(&skill) {
                    open.push(ExecutionId::from_bytes(row.get(0)?));
                }
            }
            Ok(open)
        })
        .await
    }

    /// The executions of an owner that have not ended.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn open_of_owner(&self, owner: OwnerId) -> Result<Vec<ExecutionId>, Error> {
        self.read_settled(move |connection| {
            let mut query = connection.prepare("SELECT id FROM open_executions WHERE owner = ?1")?;
            query.query_map([owner.as_str()], |row| row.get(0).map(ExecutionId::from_bytes))?.collect()
        })
        .await
    }
}

/// What is deleted meanwhile is overwritten in the file.
fn overwriting<R>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<R>,
) -> rusqlite::Result<R> {
    let set = |how: &str| connection.pragma_update_and_check(None, "secure_delete", how, |_| Ok(()));
    set("ON")?;
    let done = work(connection);
    // As it is elsewhere: what is deleted is overwritten where that writes no more pages than it would.
    set("FAST")?;
    done
}

fn erase_between(connection: &Connection, erasure: &Erasure, range: (i64, i64)) -> rusqlite::Result<u64> {
    const OF_KEYS: &str = "(SELECT id FROM keys WHERE owner = ?3)";
    let text = format!(
        "SELECT c.seq, c.execution_id, c.salt, c.commitments, c.hash FROM audit_chain c
         LEFT JOIN ended_executions e ON e.id = c.execution_id LEFT JOIN admin_acts a ON a.seq = c.seq
         WHERE c.seq > ?1 AND c.seq <= ?2
         AND (e.owner = ?3 OR a.owner = ?3 OR a.key_id IN {OF_KEYS} OR a.target IN {OF_KEYS})"
    );
    let mut query = connection.prepare(&text)?;
    let records = query.query_map(params![range.0, range.1, erasure.owner.as_str()], Kept::read)?;
    let records: Vec<Kept> = records.collect::<rusqlite::Result<_>>()?;
    for record in &records {
        if let Some(commitments) = record.to_commitments(connection)? {
            connection
                .prepare_cached("UPDATE audit_chain SET salt = NULL, commitments = ?2 WHERE seq = ?1")?
                .execute(params![record.seq, commitments])?;
        }
        match &record.execution {
            Some(id) => erase_execution(connection, erasure, id)?,
            None => erase_act(connection, erasure, record.seq)?,
        }
    }
    moved(connection, erasure, records.iter().filter(|record| record.execution.is_some()).count())?;
    Ok(records.len() as u64)
}

/// Counts executions of the owner as the pseudonym's.
fn moved(connection: &Connection, erasure: &Erasure, executions: usize) -> rusqlite::Result<()> {
    let mut counts = Counts::default();
    let executions = i64::try_from(executions).unwrap_or(i64::MAX);
    if executions > 0 {
        counts.add(erasure.owner.as_str(), -executions);
        counts.add(erasure.pseudonym.as_str(), executions);
    }
    counts.write(connection)
}

fn erase_execution(connection: &Connection, erasure: &Erasure, id: &[u8; 16]) -> rusqlite::Result<()> {
    let nobody = format!("key_{}", "0".repeat(32));
    connection
        .prepare_cached(
            "UPDATE ended_executions SET owner = ?2, key_id = ?3, session_id = NULL, args_sha256 = zeroblob(32),
             args_copy = '', output_sha256 = NULL, output_copy = NULL, error_detail = NULL, denials = NULL,
             earlier = NULL, error_message = iif(error_code IS NULL, NULL, 'erased with its owner') WHERE id = ?1",
        )?
        .execute(params![id, erasure.pseudonym.as_str(), nobody])?;
    for text in
        ["DELETE FROM execution_results WHERE execution_id = ?1", "DELETE FROM interceptions WHERE execution_id = ?1"]
    {
        connection.prepare_cached(text)?.execute([id])?;
    }
    Ok(())
}

/// Of an act in another's namespace, or on what is another's, only the part goes that is the owner's.
fn erase_act(connection: &Connection, erasure: &Erasure, seq: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE admin_acts SET target = iif(owner = ?2 OR target IN (SELECT id FROM keys WHERE owner = ?2), NULL, target),
             details = iif(owner = ?2 OR target IN (SELECT id FROM keys WHERE owner = ?2), NULL, details),
             key_id = iif(key_id IN (SELECT id FROM keys WHERE owner = ?2), NULL, key_id),
             owner = iif(owner = ?2, ?3, owner) WHERE seq = ?1",
        )?
        .execute(params![seq, erasure.owner.as_str(), erasure.pseudonym.as_str()])
        .map(drop)
}
