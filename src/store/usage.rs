//! What owners used, by day and outcome (`usage_days`), and how much of results is kept for each
//! (`result_usage`): counted together with the record of each end, so that nobody ever counts the
//! records themselves.

use std::collections::HashMap;

use parking_lot::Mutex;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use crate::model::{Error, Execution, OwnerId};

use super::journal::{Groups, Record};
use super::{DAY_MS, Store, parsed, to_json};

/// Days for which it is kept: a year, and the same month of it once more.
const KEPT_DAYS: i64 = 400;
/// The largest sum: what would be more stays there, and no sum leaves the integers.
const MOST: i64 = 4_000_000_000_000_000_000;
/// How many values of an end are looked at, from the first on: up to the code of its error.
const OF_END: usize = 25;
/// How many of a result: up to the log.
const OF_RESULT: usize = 8;

const COUNT_DAY: &str = "INSERT INTO usage_days
    (owner, day, outcome, executions, fuel, egress_bytes, duration_us, longest_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT DO UPDATE SET executions = executions + excluded.executions,
    fuel = min(fuel + excluded.fuel, 4000000000000000000),
    egress_bytes = min(egress_bytes + excluded.egress_bytes, 4000000000000000000),
    duration_us = min(duration_us + excluded.duration_us, 4000000000000000000),
    longest_us = max(longest_us, excluded.longest_us)";
const COUNT_RESULTS: &str = "INSERT INTO result_usage (owner, bytes) VALUES (?1, ?2)
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes";
const DAYS: &str = "SELECT day, outcome, executions, fuel, egress_bytes, duration_us, longest_us FROM usage_days
    WHERE owner = ?1 AND day BETWEEN ?2 AND ?3 ORDER BY day, outcome";

/// What an owner's executions of one UTC day that ended in one way used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageDay {
    /// Days since the Unix epoch.
    pub day: i64,
    /// `success`, or the code of their error.
    pub outcome: String,
    /// How many.
    pub executions: u64,
    /// Fuel that they used; that of a skill that was called is its caller's.
    pub fuel: u64,
    /// Bytes that they sent and received.
    pub egress_bytes: u64,
    /// The time from their requests to their ends, in microseconds, together and of the longest.
    pub duration_us: u64,
    /// As it is there.
    pub longest_us: u64,
}

/// Bytes that lie here for one owner, beside its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerBytes {
    /// Of results.
    pub results: u64,
    /// Of components, equal ones once.
    pub components: u64,
    /// Of what its skills keep, keys and values.
    pub kv: u64,
}

impl Store {
    /// What an owner's executions used on the days `from` to `to`, both included.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn usage_days(&self, owner: OwnerId, (from, to): (i64, i64)) -> Result<Vec<UsageDay>, Error> {
        self.read_settled(move |connection| {
            let mut query = connection.prepare_cached(DAYS)?;
            let read = |row: &rusqlite::Row<'_>| {
                Ok(UsageDay {
                    day: row.get(0)?,
                    outcome: row.get(1)?,
                    executions: row.get(2)?,
                    fuel: row.get(3)?,
                    egress_bytes: row.get(4)?,
                    duration_us: row.get(5)?,
                    longest_us: row.get(6)?,
                })
            };
            query.query_map(params![owner.as_str(), from, to], read)?.collect()
        })
        .await
    }

    /// What lies here for an owner now.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn owner_bytes(&self, owner: OwnerId) -> Result<OwnerBytes, Error> {
        let results = self.kept_result_bytes(&owner);
        let components = self.component_bytes(owner.clone()).await?;
        let kv = self.read(move |connection| {
            let text = "SELECT coalesce(max(bytes), 0) FROM kv_usage WHERE owner = ?1";
            connection.prepare_cached(text)?.query_row([owner.as_str()], |row| row.get(0))
        });
        Ok(OwnerBytes { results, components, kv: kv.await? })
    }

    /// Bytes of results that are kept for an owner, also of those that are still in the journal.
    pub fn kept_result_bytes(&self, owner: &OwnerId) -> u64 {
        self.kept.of(owner)
    }
}

/// How much of results is kept for each owner, as it is known now: in memory, so that a run pays
/// next to nothing for the question.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<HashMap<OwnerId, u64>>);

impl Kept {
    /// As the database has it. What is in the journal must be there by now.
    pub(super) fn of_database(connection: &Connection) -> rusqlite::Result<Self> {
        let mut query = connection.prepare("SELECT owner, bytes FROM result_usage")?;
        let rows = query.query_map([], |row| Ok((parsed(&row.get::<_, String>(0)?)?, row.get(1)?)))?;
        Ok(Self(Mutex::new(rows.collect::<rusqlite::Result<_>>()?)))
    }

    /// A result came to be kept.
    pub(super) fn add(&self, owner: &OwnerId, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut all = self.0.lock();
        match all.get_mut(owner) {
            Some(kept) => *kept = kept.saturating_add(bytes),
            None => drop(all.insert(owner.clone(), bytes)),
        }
    }

    /// A result was forgotten.
    pub(super) fn subtract(&self, owner: &OwnerId, bytes: u64) {
        if let Some(kept) = self.0.lock().get_mut(owner) {
            *kept = kept.saturating_sub(bytes);
        }
    }

    /// All of an owner's results were forgotten.
    pub(super) fn forget(&self, owner: &OwnerId) {
        self.0.lock().remove(owner);
    }

    fn of(&self, owner: &OwnerId) -> u64 {
        self.0.lock().get(owner).copied().unwrap_or_default()
    }
}

/// Bytes of a result as it is kept.
pub(super) fn result_bytes(execution: &Execution) -> u64 {
    let (streams, log) = (&execution.streams, &execution.said.log);
    let output = execution.output.as_ref().map_or(0, |output| output.get().len());
    let log = if log.is_empty() { 0 } else { to_json(log).len() };
    (output + streams.stdout.len() + streams.stderr.len() + log) as u64
}

/// What some ends used and left, to be put into the database in a few rows.
#[derive(Default)]
pub(super) struct Tally<'a> {
    days: HashMap<(&'a str, i64, &'a str), Sums>,
    results: HashMap<&'a str, i64>,
}

#[derive(Default)]
struct Sums {
    executions: i64,
    fuel: i64,
    egress_bytes: i64,
    duration_us: i64,
    longest_us: i64,
}

impl<'a> Tally<'a> {
    /// Counts the result of a record, and its end, each where it is new.
    pub(super) fn count(&mut self, record: &'a Record, (result, end): (bool, bool)) -> rusqlite::Result<()> {
        let mut groups: Groups<'a> = record.groups();
        let values = groups.values::<OF_RESULT>()?;
        if result {
            let bytes: usize = [2, 3, 4, 7].iter().map(|at| length(values[*at])).sum();
            let kept = self.results.entry(text(values[1])?).or_default();
            *kept = kept.saturating_add(i64::try_from(bytes).unwrap_or(MOST));
        }
        if !end {
            return Ok(());
        }
        let values = groups.values::<OF_END>()?;
        let begun = if values[13] == ValueRef::Null { number(values[12]) } else { number(values[13]) };
        let outcome = if values[24] == ValueRef::Null { values[2] } else { values[24] };
        let sums = self.days.entry((text(values[1])?, begun.div_euclid(DAY_MS), text(outcome)?)).or_default();
        let is_called = values[10] != ValueRef::Null;
        sums.executions += 1;
        sums.fuel = sum(sums.fuel, if is_called { 0 } else { number(values[20]) });
        sums.egress_bytes = sum(sums.egress_bytes, number(values[22]));
        sums.duration_us = sum(sums.duration_us, number(values[19]));
        sums.longest_us = sums.longest_us.max(number(values[19]).min(MOST));
        Ok(())
    }

    /// Puts what was counted into the open transaction.
    pub(super) fn put(self, connection: &Connection) -> rusqlite::Result<()> {
        for ((owner, day, outcome), sums) in self.days {
            let Sums { executions, fuel, egress_bytes, duration_us, longest_us } = sums;
            let values = params![owner, day, outcome, executions, fuel, egress_bytes, duration_us, longest_us];
            connection.prepare_cached(COUNT_DAY)?.execute(values)?;
        }
        for (owner, bytes) in self.results {
            connection.prepare_cached(COUNT_RESULTS)?.execute(params![owner, bytes])?;
        }
        Ok(())
    }
}

fn sum(a: i64, b: i64) -> i64 {
    a.saturating_add(b).min(MOST)
}

fn text(value: ValueRef<'_>) -> rusqlite::Result<&str> {
    Ok(value.as_str()?)
}

fn number(value: ValueRef<'_>) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn length(value: ValueRef<'_>) -> usize {
    value.as_bytes().map_or(0, <[u8]>::len)
}

/// Counts the executions that a dead host left open, as `lost` finds them; how long they took
/// nobody knows.
pub(super) fn count_lost(connection: &Connection, lost: &str) -> rusqlite::Result<()> {
    let text = format!(
        "INSERT INTO usage_days
         SELECT owner, coalesce(started_at, created_at) / ?1 AS day, 'interrupted', count(*), 0, 0, 0, 0
         FROM open_executions WHERE {lost} GROUP BY owner, day
         ON CONFLICT DO UPDATE SET executions = executions + excluded.executions"
    );
    connection.execute(&text, [DAY_MS]).map(drop)
}

/// Forgets what is long past.
pub(super) fn forget_old(connection: &Connection, today: i64) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM usage_days WHERE day < ?1", [today - KEPT_DAYS]).map(drop)
}

#[cfg(test)]
mod tests;
