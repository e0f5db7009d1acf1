//! A copy of the database, kept before a newer version of the program changes it.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

use crate::files;
use crate::model::{Code, Error};

use super::fault::fault;
use super::{migrations, too_new};

/// The database as it was before the last upgrade, in the data directory.
pub const BACKUP_NAME: &str = "skillvisor.db.before-upgrade";

/// Keeps a copy if the schema of an existing database is about to change. The copy of the
/// upgrade before gives its place up once the new one is whole and on the disk.
///
/// # Errors
///
/// `unavailable` if the database is newer than this program; as the disk gives them.
pub(super) fn keep_a_copy(connection: &Connection, dir: &Path) -> Result<(), Error> {
    let (current, newest) = migrations::versions(connection).map_err(fault)?;
    if current > newest {
        return Err(too_new());
    }
    if current == 0 || current == newest {
        return Ok(());
    }
    let unfinished = dir.join(format!("{BACKUP_NAME}.tmp"));
    // What a crash left there is of no use.
    let _ = fs::remove_file(&unfinished);
    let kept = copy(connection, &unfinished).and_then(|()| {
        fs::rename(&unfinished, dir.join(BACKUP_NAME))
            .and_then(|()| files::sync_directory(dir))
            .map_err(Error::internal)
    });
    if kept.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    kept.map_err(|error| {
        let detail = format!("the database is not upgraded without a copy, which cannot be made: {}", error.detail);
        Error { detail, ..error }
    })?;
    tracing::info!(from = current, to = newest, "The database is upgraded; {BACKUP_NAME} is how it was before");
    Ok(())
}

/// Copies the database as it is now into a new file for this user alone.
fn copy(connection: &Connection, to: &Path) -> Result<(), Error> {
    let file = files::create_private(to).map_err(Error::internal)?;
    let name = to.to_str().ok_or_else(|| {
        Error::new(Code::Unavailable, "the path of the data directory is not UTF-8; move it to one that is")
    })?;
    // Into a file that is there and empty, so that it never has another mode.
    connection.execute("VACUUM INTO ?1", [name]).map_err(fault)?;
    file.sync_all().map_err(Error::internal)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::{FILE_NAME, Store};
    use super::*;

    fn open(file: &Path) -> Connection {
        Connection::open(file).unwrap()
    }

    #[test]
    fn a_new_database_and_one_that_stays_as_it_is_are_not_copied() {
        let dir = tempfile::tempdir().unwrap();
        let mut connection = open(&dir.path().join("a.db"));
        keep_a_copy(&connection, dir.path()).unwrap();
        migrations::apply(&mut connection).unwrap();
        keep_a_copy(&connection, dir.path()).unwrap();
        assert!(!dir.path().join(BACKUP_NAME).exists());
    }

    #[test]
    fn an_old_database_is_kept_as_it_was_for_its_user_alone_and_only_the_last_one() {
        let dir = tempfile::tempdir().unwrap();
        let (copy, left) = (dir.path().join(BACKUP_NAME), dir.path().join(format!("{BACKUP_NAME}.tmp")));
        fs::write(&left, "of a crash").unwrap();
        for round in 1..=2_u32 {
            let connection = open(&dir.path().join(format!("{round}.db")));
            connection.execute_batch("CREATE TABLE t (n INTEGER) STRICT").unwrap();
            connection.execute("INSERT INTO t VALUES (?1)", [round]).unwrap();
            connection.pragma_update(None, "user_version", 1).unwrap();
            keep_a_copy(&connection, dir.path()).unwrap();
            let kept = open(&copy);
            let read = |sql: &str| kept.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
            assert_eq!((read("SELECT n FROM t"), read("PRAGMA user_version")), (round, 1));
            assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
            assert!(!left.exists());
        }
    }

    #[test]
    fn a_newer_database_is_refused_and_not_copied() {
        let dir = tempfile::tempdir().unwrap();
        let connection = open(&dir.path().join("a.db"));
        connection.pragma_update(None, "user_version", 999).unwrap();
        let refused = keep_a_copy(&connection, dir.path()).unwrap_err();
        assert!(refused.detail.contains("newer version"), "{refused:?}");
        assert!(!dir.path().join(BACKUP_NAME).exists());
    }

    #[test]
    fn who_is_refused_leaves_an_old_database_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE_NAME);
        let mut old = open(&file);
        let newest = migrations::versions(&old).unwrap().1;
        migrations::apply_first(&mut old, newest - 1);
        let row = "INSERT INTO secrets VALUES ('o', 'N', 1, 'https://a.example', 'authorization', '', 0, zeroblob(16),
                   zeroblob(12), zeroblob(20), 0, 0)";
        old.execute(row, []).unwrap();
        drop(old);
        let telemetry = crate::telemetry::Telemetry::new();
        let refused = Store::open_if(dir.path(), telemetry, |keys| {
            assert_eq!(keys, [[0; 16]]);
            Err(Error::new(Code::Unavailable, "no"))
        });
        assert_eq!(refused.err().unwrap().detail, "no");
        assert_eq!(migrations::versions(&open(&file)).unwrap().0, newest - 1);
        assert!(!dir.path().join(BACKUP_NAME).exists());
    }

    #[tokio::test]
    async fn a_database_of_the_first_version_is_kept_and_then_upgraded() {
        let dir = tempfile::tempdir().unwrap();
        let mut old = open(&dir.path().join(FILE_NAME));
        migrations::apply_first(&mut old, 1);
        drop(old);
        let store = Store::open(dir.path(), crate::telemetry::Telemetry::new()).unwrap();
        assert!(store.skills().await.unwrap().0.is_empty());
        store.close().await;
        let version = |file: &str| migrations::versions(&open(&dir.path().join(file))).unwrap();
        let (now, newest) = version(FILE_NAME);
        assert_eq!((now, version(BACKUP_NAME).0), (newest, 1));
    }
}
