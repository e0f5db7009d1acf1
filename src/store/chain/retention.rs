//! What of the audit was kept for long enough. What is removed always ends at a checkpoint, which
//! stays: the rest is checked from there on.

use rusqlite::{OptionalExtension, Row, params};

use crate::model::{Error, OwnerId};
use crate::store::executions::Counts;
use crate::store::{Store, parsed};

impl Store {
    /// Removes the oldest records, with what they stand for, up to the last checkpoint of before `before`, in
    /// milliseconds since the Unix epoch; at most `limit`. Gives how many, and the number of that checkpoint.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn purge_audit(&self, before: i64, limit: u32) -> Result<(usize, i64), Error> {
        const CUT: &str = "SELECT seq FROM audit_checkpoints WHERE at < ?1 ORDER BY seq DESC LIMIT 1";
        const OLDEST: &str = "SELECT seq, execution_id FROM audit_chain WHERE seq <= ?1 ORDER BY seq LIMIT ?2";
        const RESULT: &str = "DELETE FROM execution_results WHERE execution_id = ?1
            RETURNING owner, coalesce(octet_length(output), 0) + octet_length(stdout) + octet_length(stderr)
            + coalesce(octet_length(log), 0)";
        let purged = self.write_together(move |connection| {
            let cut: Option<i64> = connection.prepare_cached(CUT)?.query_row([before], |row| row.get(0)).optional()?;
            let Some(cut) = cut else { return Ok((0, 0, Vec::new())) };
            let mut forgotten: Vec<(OwnerId, u64)> = Vec::new();
            let mut query = connection.prepare_cached(OLDEST)?;
            let oldest = query.query_map(params![cut, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let oldest: Vec<(i64, Option<[u8; 16]>)> = oldest.collect::<rusqlite::Result<_>>()?;
            let mut counts = Counts::default();
            for (seq, execution) in &oldest {
                if let Some(id) = execution {
                    let gone = "DELETE FROM ended_executions WHERE id = ?1 RETURNING owner";
                    let owner: Option<String> =
                        connection.prepare_cached(gone)?.query_row([id], |row| row.get(0)).optional()?;
                    owner.iter().for_each(|owner| counts.add(owner, -1));
                    let of_row = |row: &Row<'_>| Ok((parsed(&row.get::<_, String>(0)?)?, row.get(1)?));
                    forgotten.extend(connection.prepare_cached(RESULT)?.query_row([id], of_row).optional()?);
                    let decided = "DELETE FROM interceptions WHERE execution_id = ?1";
                    connection.prepare_cached(decided)?.execute([id])?;
                } else {
                    connection.prepare_cached("DELETE FROM admin_acts WHERE seq = ?1")?.execute([seq])?;
                }
                connection.prepare_cached("DELETE FROM audit_chain WHERE seq = ?1")?.execute([seq])?;
            }
            counts.write(connection)?;
            if let Some((last, _)) = oldest.last() {
                connection.prepare_cached("DELETE FROM audit_checkpoints WHERE seq < ?1")?.execute([last])?;
            }
            Ok((oldest.len(), cut, forgotten))
        });
        let (records, cut, forgotten) = purged.await?;
        for (owner, bytes) in &forgotten {
            self.kept.subtract(owner, *bytes);
        }
        Ok((records, cut))
    }
}
