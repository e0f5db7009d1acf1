//! Putting into the database what the journal has.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, ErrorCode, params};

use crate::model::{Error, ExecutionId};
use crate::store::chain::Chain;
use crate::store::fault::fault;
use crate::store::journal::{Groups, Record, Step};
use crate::store::queued;
use crate::store::usage::Tally;

use super::Counts;
use super::columns::{at_end, at_start};
use super::{beside, place};

/// Once only, as the record of an end may be tried again.
const OPEN: &str = concat!(
    "INSERT OR IGNORE INTO open_executions (",
    at_start!(),
    ", place)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"
);
const RESULT: &str = "INSERT OR IGNORE INTO execution_results
    (execution_id, owner, output, stdout, stderr, stdout_truncated, stderr_truncated, log, log_truncated)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const END: &str = concat!(
    "INSERT OR IGNORE INTO ended_executions (",
    at_start!(),
    ", ",
    at_end!(),
    ")
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
     ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32)"
);

/// Puts what a dead host left in its journal into the database, unless it is there; gives the
/// number of the last record.
///
/// # Errors
///
/// As any write.
pub(in crate::store) fn recover(connection: &mut Connection, mut left: Vec<(u64, Record)>) -> Result<u64, Error> {
    let mut recovered = || -> rusqlite::Result<u64> {
        let applied = connection.query_row("SELECT applied FROM journal", [], |row| row.get(0))?;
        left.retain(|(number, _)| *number > applied);
        left.sort_by_key(|(number, _)| *number);
        let Some((last, _)) = left.last() else { return Ok(applied) };
        let transaction = connection.transaction()?;
        apply(&transaction, &left)?;
        transaction.commit()?;
        Ok(*last)
    };
    recovered().map_err(fault)
}

/// Puts records, in their order, into the open transaction. Of what begins and ends among them,
/// only the end is written.
pub(in crate::store) fn apply(connection: &Connection, records: &[(u64, Record)]) -> rusqlite::Result<()> {
    let Some((last, _)) = records.last() else { return Ok(()) };
    let ends: HashMap<_, _> = records
        .iter()
        .filter(|(_, record)| record.step() != Step::Open)
        .map(|(number, record)| (record.id(), *number))
        .collect();
    let (mut begun, mut ended) = (HashSet::new(), Ended::default());
    for (number, record) in records {
        let id = record.id();
        let put = match record.step() {
            Step::Open if ends.get(&id).is_some_and(|end| end > number) => {
                begun.insert(id);
                Ok(())
            }
            Step::Close if begun.contains(&id) => end(connection, record, &mut ended),
            _ => put_one(connection, record, &mut ended),
        };
        put.or_else(|error| passed_over(id, error))?;
    }
    ended.write(connection)?;
    connection.prepare_cached("UPDATE journal SET applied = ?1")?.execute([last]).map(drop)
}

/// Goes on after a record that the database will never take, which would hold up all others.
fn passed_over(id: ExecutionId, error: rusqlite::Error) -> rusqlite::Result<()> {
    let never = matches!(error, rusqlite::Error::FromSqlConversionFailure(..))
        || error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation);
    if !never {
        return Err(error);
    }
    tracing::error!(execution.id = %id, "A record of the journal does not fit the database, and is left out: {error}");
    Ok(())
}

/// What is kept beside the rows of those that end in one transaction.
#[derive(Default)]
struct Ended<'a> {
    chain: Chain,
    counts: Counts,
    tally: Tally<'a>,
}

impl Ended<'_> {
    fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        self.counts.write(connection)?;
        self.tally.put(connection)
    }
}

/// Puts one record into the open transaction, and what is kept beside it.
pub(super) fn put(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    let mut ended = Ended::default();
    put_one(connection, record, &mut ended)?;
    ended.write(connection)
}

fn put_one<'a>(connection: &Connection, record: &'a Record, ended: &mut Ended<'a>) -> rusqlite::Result<()> {
    let id = record.id();
    if record.step() == Step::Open {
        return record.groups().run(connection, OPEN).map(drop);
    }
    end(connection, record, ended)?;
    if record.step() == Step::CloseWaiting {
        queued::forget(connection, id)?;
    }
    let mut delete = connection.prepare_cached("DELETE FROM open_executions WHERE place = ?1 AND id = ?2")?;
    delete.execute(params![place(id), id.as_bytes()]).map(drop)
}

fn end<'a>(connection: &Connection, record: &'a Record, ended: &mut Ended<'a>) -> rusqlite::Result<()> {
    let mut groups = record.groups();
    let is_kept = groups.run(connection, RESULT)? > 0;
    let row = groups.again(Groups::values)?;
    let is_new = groups.run(connection, END)? > 0;
    // One that is written down again counts once.
    if is_new {
        beside::put(connection, groups)?;
        ended.counts.add(row[1].as_str().unwrap_or_default(), 1);
        ended.chain.execution(connection, &row)?;
    }
    ended.tally.count(record, (is_kept, is_new))
}
