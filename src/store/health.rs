//! A look at the database from outside, also while a host uses it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::model::Error;

use super::chain::head_is_sound;
use super::fault::fault;
use super::skills::skill_record;
use super::{FILE_NAME, migrations};

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreHealth {
    /// How many steps its schema has.
    pub schema: usize,
    /// How many this program knows.
    pub newest: usize,
    /// Rows of `skills`. Not counted in a schema that is not this program's.
    pub skills: usize,
    /// Ids of those that cannot be read and are left out, with what is wrong.
    pub damaged: Vec<String>,
    /// The number of the audit's last record, or what is wrong at its end. Not looked at in a schema that
    /// is not this program's.
    pub audit: Result<i64, String>,
}

/// Looks at the database in `dir` without changing it; nothing where there is none.
///
/// # Errors
///
/// As any read.
pub fn health(dir: &Path) -> Result<Option<StoreHealth>, Error> {
    let file = dir.join(FILE_NAME);
    if !file.exists() {
        return Ok(None);
    }
    look(&file).map(Some).map_err(fault)
}

fn look(file: &Path) -> rusqlite::Result<StoreHealth> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.execute_batch("PRAGMA busy_timeout=5000; PRAGMA trusted_schema=OFF;")?;
    let (schema, newest) = migrations::versions(&connection)?;
    let mut health = StoreHealth { schema, newest, skills: 0, damaged: Vec::new(), audit: Ok(0) };
    if schema != newest {
        return Ok(health);
    }
    health.audit = head_is_sound(&connection)?;
    let mut query = connection.prepare("SELECT * FROM skills ORDER BY id")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        health.skills += 1;
        if let Err(error) = skill_record(row) {
            let id: Vec<u8> = row.get("id").unwrap_or_default();
            health.damaged.push(format!("{}: {error}", hex::encode(id)));
        }
    }
    Ok(health)
}
