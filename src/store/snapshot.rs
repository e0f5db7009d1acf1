//! The database as it is at one moment, copied while a host uses it; and a look at such a copy.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::files;
use crate::model::{Code, Digest, Error};

use super::fault::fault;
use super::{ComponentRecord, FILE_NAME, migrations, too_new};

/// Pages that are copied in one go: about 4 MiB.
const PAGES: i32 = 1024;

/// The database at one moment. As long as this is held, what is written is not folded into the file.
pub struct Snapshot {
    connection: Connection,
    /// How many steps its schema has.
    pub schema: usize,
}

impl Snapshot {
    /// Takes one of the database in `dir`, also while a host uses it: all that was committed before.
    ///
    /// # Errors
    ///
    /// `not_found` where there is none, `unavailable` if a newer version wrote it; and as any read.
    pub fn take(dir: &Path) -> Result<Self, Error> {
        let file = dir.join(FILE_NAME);
        if !file.exists() {
            return Err(Error::new(Code::NotFound, "no such data directory: there is no database in it"));
        }
        let connection = look_at(&file).map_err(fault)?;
        let (schema, newest) = migrations::versions(&connection).map_err(fault)?;
        if schema > newest {
            return Err(too_new());
        }
        // Begins with the first read, and holds until the connection is dropped.
        connection.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").map_err(fault)?;
        Ok(Self { connection, schema })
    }

    /// The components that it needs.
    ///
    /// # Errors
    ///
    /// As any read.
    pub fn components(&self) -> Result<Vec<ComponentRecord>, Error> {
        components(&self.connection).map_err(fault)
    }

    /// Copies it into a new file for this user alone; tells `progress` how many bytes came.
    ///
    /// # Errors
    ///
    /// As any read; as the disk of the copy gives them.
    pub fn copy(&self, to: &Path, mut progress: impl FnMut(u64)) -> Result<(), Error> {
        let file = files::create_private(to).map_err(Error::internal)?;
        let mut copied = || -> rusqlite::Result<()> {
            let page: u64 = self.connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
            let mut copy = Connection::open(to)?;
            // Nobody has it before it is whole and synced.
            copy.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;")?;
            let backup = Backup::new(&self.connection, &mut copy)?;
            let mut left = None;
            loop {
                let step = backup.step(PAGES)?;
                let remaining = u64::try_from(backup.progress().remaining).unwrap_or_default();
                let all = u64::try_from(backup.progress().pagecount).unwrap_or_default();
                progress(left.unwrap_or(all).saturating_sub(remaining) * page);
                left = Some(remaining);
                if step == StepResult::Done {
                    return Ok(());
                }
            }
        };
        copied().map_err(copy_fault)?;
        file.sync_all().map_err(Error::internal)
    }
}

/// What is wrong with the copy; its disk is not that of the data directory.
fn copy_fault(error: rusqlite::Error) -> Error {
    let error = fault(error);
    if error.code == Code::StorageFull {
        return Error { detail: "the disk of the backup is full".to_owned(), ..error };
    }
    error
}

/// Checks every page of the copy of a database in `dir`, and gives its schema and the components that it needs.
///
/// # Errors
///
/// `unavailable` if a newer version wrote it; `digest_mismatch` if it is damaged.
pub fn examine(dir: &Path) -> Result<(usize, Vec<ComponentRecord>), Error> {
    let damaged =
        |why: String| Error::new(Code::DigestMismatch, format!("the database of the backup is damaged: {why}"));
    let look = || -> rusqlite::Result<(usize, usize, String, Vec<ComponentRecord>)> {
        let connection = look_at(&dir.join(FILE_NAME))?;
        let (schema, newest) = migrations::versions(&connection)?;
        if schema > newest {
            return Ok((schema, newest, String::new(), Vec::new()));
        }
        let whole = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        Ok((schema, newest, whole, components(&connection)?))
    };
    let (schema, newest, whole, components) = look().map_err(|error| damaged(error.to_string()))?;
    if schema > newest {
        return Err(too_new());
    }
    if whole == "ok" { Ok((schema, components)) } else { Err(damaged(whole)) }
}

fn look_at(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.execute_batch("PRAGMA busy_timeout=5000; PRAGMA trusted_schema=OFF;")?;
    Ok(connection)
}

fn components(connection: &Connection) -> rusqlite::Result<Vec<ComponentRecord>> {
    let mut query = connection.prepare("SELECT digest, bytes FROM components")?;
    let read =
        |row: &rusqlite::Row<'_>| Ok(ComponentRecord { digest: Digest::from_bytes(row.get(0)?), bytes: row.get(1)? });
    query.query_map([], read)?.collect()
}
