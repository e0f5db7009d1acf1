//! What keys with budgets used, by day (`key_days`).

use rusqlite::Connection;

use crate::model::{Error, Execution, KeyId};

use super::executions::integer;
use super::journal::Values;
use super::{Store, parsed, usage};

/// Milliseconds of one UTC day.
pub const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Days for which it is kept.
const KEPT: i64 = 31;

/// What one key used on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDay {
    /// Which key.
    pub key: KeyId,
    /// Which day, since the Unix epoch.
    pub day: i64,
    /// Executions that began.
    pub executions: u64,
    /// Fuel that they used.
    pub fuel: u64,
    /// Bytes that they sent and received.
    pub egress_bytes: u64,
}

impl Store {
    /// What keys used on the day of `now`, in milliseconds since the Unix epoch, or later if the
    /// clock was set back since. Forgets what is long past.
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn key_days(&self, now: i64) -> Result<Vec<KeyDay>, Error> {
        let today = now.div_euclid(DAY_MS);
        self.write_together(move |connection| {
            connection.execute("DELETE FROM key_days WHERE day < ?1", [today - KEPT])?;
            usage::forget_old(connection, today)?;
            // The newest of each key comes last.
            let mut query = connection.prepare(
                "SELECT key_id, day, executions, fuel, egress_bytes FROM key_days WHERE day >= ?1 ORDER BY day",
            )?;
            let read = |row: &rusqlite::Row<'_>| {
                Ok(KeyDay {
                    key: parsed(&row.get::<_, String>(0)?)?,
                    day: row.get(1)?,
                    executions: row.get(2)?,
                    fuel: row.get(3)?,
                    egress_bytes: row.get(4)?,
                })
            };
            query.query_map([today], read)?.collect()
        })
        .await
    }
}

/// Counts an execution that ended: the values of [`used`].
pub(super) const COUNT: &str = "INSERT INTO key_days (key_id, day, executions, fuel, egress_bytes)
    VALUES (?1, ?2, 1, ?3, ?4)
    ON CONFLICT DO UPDATE SET executions = executions + 1, fuel = fuel + excluded.fuel,
    egress_bytes = egress_bytes + excluded.egress_bytes";

/// What an execution that ended used. What it was called by has its fuel too.
pub(super) fn used(values: &mut Values, execution: &Execution) -> rusqlite::Result<()> {
    let fuel = if execution.parent_id.is_none() { execution.usage.fuel } else { 0 };
    values.group(4);
    values.push(execution.key_id.as_str())?;
    values.push(execution.started_at.unwrap_or(execution.created_at).div_euclid(DAY_MS))?;
    values.push(integer(fuel))?;
    values.push(integer(execution.usage.egress_bytes))
}

/// Counts the executions that are open and have begun: the host died, and nobody knows what they used.
pub(super) fn count_open(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .execute(
            "INSERT INTO key_days (key_id, day, executions, fuel, egress_bytes)
             SELECT key_id, coalesce(started_at, created_at) / ?1 AS day, count(*), 0, 0 FROM open_executions
             WHERE status <> 'pending' GROUP BY key_id, day
             ON CONFLICT DO UPDATE SET executions = executions + excluded.executions",
            [DAY_MS],
        )
        .map(drop)
}
