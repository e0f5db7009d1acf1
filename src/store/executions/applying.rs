//! Putting into the database what the journal has.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, ErrorCode, params};

use crate::model::{Error, ExecutionId};
use crate::store::chain::Chain;
use crate::store::fault::fault;
use crate::store::journal::{Record, Step};
use crate::store::{key_days, queued};

use super::Counts;
use super::columns::{at_end, at_start};
use super::place;

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
    let (mut begun, mut beside) = (HashSet::new(), Ends::default());
    for (number, record) in records {
        let id = record.id();
        let put = match record.step() {
            Step::Open if ends.get(&id).is_some_and(|end| end > number) => {
                begun.insert(id);
                Ok(())
            }
            Step::Close if begun.contains(&id) => end(connection, record, &mut beside),
            _ => put(connection, record, &mut beside),
        };
        put.or_else(|error| passed_over(id, error))?;
    }
    beside.counts.write(connection)?;
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
struct Ends {
    chain: Chain,
    counts: Counts,
}

/// Puts one record into the open transaction, and what is kept beside it.
pub(super) fn put_alone(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    let mut ends = Ends::default();
    put(connection, record, &mut ends)?;
    ends.counts.write(connection)
}

fn put(connection: &Connection, record: &Record, ends: &mut Ends) -> rusqlite::Result<()> {
    let id = record.id();
    if record.step() == Step::Open {
        return record.groups().run(connection, OPEN).map(drop);
    }
    end(connection, record, ends)?;
    if record.step() == Step::CloseWaiting {
        queued::forget(connection, id)?;
    }
    let mut delete = connection.prepare_cached("DELETE FROM open_executions WHERE place = ?1 AND id = ?2")?;
    delete.execute(params![place(id), id.as_bytes()]).map(drop)
}

fn end(connection: &Connection, record: &Record, ends: &mut Ends) -> rusqlite::Result<()> {
    let mut groups = record.groups();
    groups.run(connection, RESULT)?;
    let row = groups.clone().values()?;
    // One that is written down again counts once.
    if groups.run(connection, END)? == 0 {
        return Ok(());
    }
    if !groups.is_empty() {
        groups.run(connection, key_days::COUNT)?;
    }
    ends.counts.add(row[1].as_str().unwrap_or_default(), 1);
    ends.chain.execution(connection, &row)
}
