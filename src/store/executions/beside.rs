//! What is written down with the end of an execution beside its own row: what its key used that day, what
//! interceptors did, and which webhooks are to be told.

use rusqlite::Connection;

use crate::model::InterceptorId;
use crate::store::journal::{Groups, Values};
use crate::store::{key_days, to_json};

use super::FinishedExecution;

/// How many values the group of [`intercepted`] has; that of [`key_days::used`] has another number.
const INTERCEPTED: u8 = 3;

const DECISIONS: &str = "INSERT OR IGNORE INTO interceptions (execution_id, decisions)
    SELECT ?1, ?2 WHERE ?2 IS NOT NULL AND (?3 IS NULL OR true)";
/// Due at once. A webhook that is gone by then is told nothing.
const TOLD: &str = "INSERT OR IGNORE INTO webhook_outbox (interceptor_id, execution_id, attempts, due_at)
    SELECT interceptors.id, ?1, 0, 0 FROM json_each(?3) AS told JOIN interceptors ON interceptors.id = unhex(told.value)
    WHERE ?2 IS NULL OR true";

/// What interceptors did and who is to be told, if anything.
pub(super) fn intercepted(values: &mut Values, finished: &FinishedExecution) -> rusqlite::Result<()> {
    let (execution, told) = (&finished.execution, &finished.told);
    if execution.interceptors.is_empty() && told.is_empty() {
        return Ok(());
    }
    let told: Vec<_> = told.iter().map(|id| hex::encode(InterceptorId::as_bytes(id))).collect();
    values.group(INTERCEPTED);
    values.push(execution.id.as_bytes())?;
    values.push((!execution.interceptors.is_empty()).then(|| to_json(&execution.interceptors)))?;
    values.push((!told.is_empty()).then(|| to_json(&told)))
}

/// Puts what a record has beside its row.
pub(super) fn put(connection: &Connection, mut groups: Groups<'_>) -> rusqlite::Result<()> {
    while let Some(count) = groups.next_count() {
        if count == INTERCEPTED {
            groups.again(|groups| groups.run(connection, DECISIONS))?;
            groups.run(connection, TOLD)?;
        } else {
            groups.run(connection, key_days::COUNT)?;
        }
    }
    Ok(())
}
