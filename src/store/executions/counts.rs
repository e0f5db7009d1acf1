//! How many executions of each owner have ended (`execution_counts`).

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use crate::model::Status;

use super::ExecutionFilter;

/// What one transaction changes in the counts, written once for each owner.
#[derive(Default)]
pub(in crate::store) struct Counts(HashMap<Box<str>, i64>);

impl Counts {
    /// Counts executions that came (or went) for an owner.
    pub(in crate::store) fn add(&mut self, owner: &str, count: i64) {
        match self.0.get_mut(owner) {
            Some(known) => *known += count,
            None => drop(self.0.insert(owner.into(), count)),
        }
    }

    /// Writes them down, in the transaction that is open.
    ///
    /// # Errors
    ///
    /// As any write.
    pub(in crate::store) fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        let add = "INSERT INTO execution_counts (owner, ended) VALUES (?1, ?2)
                   ON CONFLICT DO UPDATE SET ended = ended + excluded.ended";
        for (owner, count) in self.0 {
            connection.prepare_cached(add)?.execute(params![owner, count])?;
            if count < 0 {
                let none = "DELETE FROM execution_counts WHERE owner = ?1 AND ended <= 0";
                connection.prepare_cached(none)?.execute([owner])?;
            }
        }
        Ok(())
    }
}

/// How many that have ended match, where that is known without looking at them.
pub(super) fn known(connection: &Connection, filter: &ExecutionFilter) -> rusqlite::Result<Option<u64>> {
    let ExecutionFilter { owner, key, skill, names, status, session, since, before: _, limit: _ } = filter;
    let narrows = key.is_some() || skill.is_some() || names.is_some() || session.is_some() || since.is_some();
    if narrows || !matches!(status, None | Some(Status::Success)) {
        return Ok(None);
    }
    let owner = owner.as_ref().map(|owner| owner.as_str());
    let ended = match owner {
        Some(owner) => {
            let one = "SELECT ended FROM execution_counts WHERE owner = ?1";
            connection.prepare_cached(one)?.query_row([owner], |row| row.get(0)).optional()?.unwrap_or(0)
        }
        None => {
            let all = "SELECT coalesce(sum(ended), 0) FROM execution_counts";
            connection.prepare_cached(all)?.query_row([], |row| row.get::<_, u64>(0))?
        }
    };
    if status.is_none() {
        return Ok(Some(ended));
    }
    let others = if owner.is_some() {
        "SELECT count(*) FROM ended_executions WHERE owner = ?1 AND status <> 'success'"
    } else {
        "SELECT count(*) FROM ended_executions WHERE ?1 IS NULL AND status <> 'success'"
    };
    let others: u64 = connection.prepare_cached(others)?.query_row([owner], |row| row.get(0))?;
    Ok(Some(ended.saturating_sub(others)))
}
