//! What the host remembers: SQLite, and the only room with SQL.
//!
//! One writer thread commits in groups (WAL, `synchronous=FULL`), and the steps of executions are
//! in a journal before that: a write that was answered survives a power cut. Readers have connections of their own. No type of the
//! driver leaves this room, so that another backend can take its place.

mod aliases;
mod chain;
mod executions;
mod fault;
mod health;
mod idempotency;
mod interceptors;
mod journal;
mod key_days;
mod keys;
mod keyvalue;
mod migrations;
mod outbox;
mod queued;
mod secrets;
mod skill_texts;
mod skills;
mod snapshot;
mod upgrade;
mod usage;
mod writer;

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};

use crate::files;
use crate::model::{BoxError, Code, Error};
use crate::telemetry::Telemetry;

pub use self::aliases::AliasRecord;
pub use self::chain::{
    AUDIT_KEY_FILE, Act, AuditExport, AuditPublicKey, AuditReport, Broken, Erasure, verify as verify_audit,
};
pub use self::executions::{ArgsRecord, ExecutionFilter, ExecutionPage, FinishedExecution};
pub use self::health::{StoreHealth, health};
pub use self::idempotency::{Claim, Claimed};
pub use self::interceptors::WebhookSecret;
pub(crate) use self::journal::FILE_NAMES as JOURNAL_NAMES;
pub use self::key_days::{DAY_MS, KeyDay};
pub use self::keys::StoredKey;
pub use self::keyvalue::{KvBucket, KvQuota};
pub use self::outbox::{DeadLetter, Delivery};
pub use self::queued::QueuedExecution;
pub use self::secrets::SecretRecord;
pub use self::skills::{ComponentRecord, SkillParts, SkillRecord};
pub use self::snapshot::{Snapshot, examine};
pub use self::upgrade::BACKUP_NAME;
pub use self::usage::{OwnerBytes, UsageDay};
pub use self::writer::answered;

use self::chain::Signer;
use self::fault::fault;
use self::journal::Journal;
use self::usage::Kept;
use self::writer::Writer;

/// The database file in the data directory.
pub const FILE_NAME: &str = "skillvisor.db";

/// Connections kept for reading; more are opened when all are busy, and then closed.
const IDLE_READERS: usize = 8;

/// The database. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    writer: Writer,
    journal: Journal,
    readers: Arc<Readers>,
    kept: Arc<Kept>,
    signer: Arc<Signer>,
    /// What the next change is written down as ([`Store::by`]).
    act: Option<Arc<Act>>,
}

struct Readers {
    path: Box<Path>,
    idle: Mutex<Vec<Connection>>,
}

impl Store {
    /// Opens, and brings to the newest schema, the database in `dir`; before that is changed, a
    /// copy is kept ([`BACKUP_NAME`]). Commits are measured in `telemetry`.
    ///
    /// # Errors
    ///
    /// `unavailable` if the file was written by a newer version, `storage_full` if there is no
    /// room for the copy, `internal` if it is
    /// damaged or the disk does not play along.
    pub fn open(dir: &Path, telemetry: Arc<Telemetry>) -> Result<Self, Error> {
        Self::open_if(dir, telemetry, |_| Ok(()))
    }

    /// The same, unless `may`, which is asked before anything is changed, refuses. It is told which keys the
    /// secrets in the database were sealed with.
    ///
    /// # Errors
    ///
    /// As [`Store::open`] and `may`.
    pub fn open_if(
        dir: &Path,
        telemetry: Arc<Telemetry>,
        may: impl FnOnce(&[[u8; 16]]) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let path = dir.join(FILE_NAME);
        // What it makes beside the file, it makes as private as the file.
        files::make_private(&path, true).map_err(Error::internal)?;
        for beside in ["-wal", "-shm"] {
            files::make_private(&dir.join(format!("{FILE_NAME}{beside}")), false).map_err(Error::internal)?;
        }
        let mut connection = connect(&path).map_err(fault)?;
        may(&secrets::sealed_with(&connection).map_err(fault)?)?;
        upgrade::keep_a_copy(&connection, dir)?;
        migrations::apply(&mut connection)?;
        let readers = Readers { path: path.into(), idle: Mutex::default() };
        // After the schema: an older version may have written what it has.
        let mut opened = journal::Opened::new(dir)?;
        let applied = executions::recover(&mut connection, std::mem::take(&mut opened.left))?;
        let kept = Arc::new(Kept::of_database(&connection).map_err(fault)?);
        let signer = Arc::new(Signer::open(dir)?);
        chain::begin(&connection, &signer)?;
        let writer = Writer::start(connection, Some(Arc::clone(&signer)), applied, Arc::clone(&telemetry))?;
        let journal = opened.start(applied + 1, Arc::clone(writer.backlog()), telemetry)?;
        Ok(Self { writer, journal, readers: Arc::new(readers), kept, signer, act: None })
    }

    /// Runs `question` on a connection that cannot write.
    async fn read<R: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> Result<R, Error> {
        let readers = Arc::clone(&self.readers);
        let work = tokio::task::spawn_blocking(move || readers.ask(question));
        work.await.map_err(Error::internal)?.map_err(fault)
    }

    /// [`Store::read`] of what the journal may still have.
    async fn read_settled<R: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> Result<R, Error> {
        self.writer.settle().await;
        self.read(question).await
    }

    /// Runs `statement`, one statement, on the writer thread, and answers once it is durable.
    async fn write<R: Send + 'static>(
        &self,
        statement: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> Result<R, Error> {
        match &self.act {
            Some(act) => self.writer.run(together(chain::acted(Arc::clone(act), statement))).await,
            None => self.writer.run(statement).await,
        }
    }

    /// Like [`Store::write`] for several statements: all of them happen or none.
    async fn write_together<R: Send + 'static>(
        &self,
        statements: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> Result<R, Error> {
        match &self.act {
            Some(act) => self.writer.run(together(chain::acted(Arc::clone(act), statements))).await,
            None => self.writer.run(together(statements)).await,
        }
    }

    /// Whether the database answers, through the one thread that writes: a store that can
    /// only be read carries out nothing.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn ping(&self) -> Result<(), Error> {
        self.write(|connection| connection.query_row("SELECT 1", [], |_| Ok(()))).await
    }

    /// Checks the whole file; the answer is `ok` or what is damaged.
    ///
    /// # Errors
    ///
    /// As any read.
    pub async fn integrity(&self) -> Result<String, Error> {
        self.read(|c| c.query_row("PRAGMA integrity_check", [], |row| row.get(0))).await
    }

    /// Whether [`Store::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.writer.is_stopped()
    }

    /// Commits what is under way and closes the file.
    pub async fn close(&self) {
        self.readers.idle.lock().clear();
        self.journal.stop().await;
        self.writer.stop().await;
    }
}

impl Readers {
    fn ask<R>(&self, question: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> rusqlite::Result<R> {
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let connection = connect(&self.path)?;
                connection.execute_batch("PRAGMA query_only=ON")?;
                connection
            }
        };
        let answer = question(&connection);
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_READERS {
            idle.push(connection);
        }
        answer
    }
}

/// Several statements of which all happen or none.
fn together<R>(
    statements: impl FnOnce(&Connection) -> rusqlite::Result<R>,
) -> impl FnOnce(&Connection) -> rusqlite::Result<R> {
    |connection| {
        connection.prepare_cached("SAVEPOINT job")?.execute([])?;
        let result = statements(connection);
        if result.is_err() {
            connection.prepare_cached("ROLLBACK TO job")?.execute([])?;
        }
        connection.prepare_cached("RELEASE job")?.execute([])?;
        result
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    // FULL, because a reply says that its row is on the disk.
    connection.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA busy_timeout=5000;
         PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF; PRAGMA wal_autocheckpoint=4000;
         PRAGMA journal_size_limit=67108864;
         PRAGMA secure_delete=FAST;",
    )?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Does work to its end, also when the caller leaves in the middle: rows, files and what is in
/// memory must not part.
pub(crate) async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(work).await.map_err(Error::internal)?
}

/// Reads a JSON column.
fn json_column<T: serde::de::DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| damaged(Box::new(error)))
}

/// Reads a text column that has a type of its own.
fn parsed<T: std::str::FromStr<Err: Into<BoxError>>>(text: &str) -> rusqlite::Result<T> {
    text.parse().map_err(|error: T::Err| damaged(error.into()))
}

/// A value that this version could not have written.
fn damaged(error: BoxError) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error)
}

/// Writes a value as JSON. The types that come here always can be.
fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The error for a database that a newer version wrote.
fn too_new() -> Error {
    let detail =
        "the data directory was written by a newer version of skillvisor; start that version, or restore a backup";
    Error::new(Code::Unavailable, detail)
}
