//! The schema, as a list of steps. Append only: a step that was released is never edited.

use std::sync::LazyLock;

use rusqlite::Connection;
use rusqlite_migration::{Error as MigrationError, M, Migrations};

use crate::model::Error;

/// Times are milliseconds since the Unix epoch, ids the 16 bytes of a UUIDv7, digests 32 bytes.
///
/// `skills` keeps deleted versions, with `deleted_at`: a version never changes its meaning.
/// `skill_executions` and `execution_results` are clustered by their time-ordered id, so
/// that an insert is an append and old rows go in one range. Open executions have an index
/// of their own that is empty when nothing runs.
const FIRST: &str = include_str!("migrations/first.sql");

/// The columns that open and ended executions share.
macro_rules! at_start {
    () => {
        "owner TEXT NOT NULL,
    status TEXT NOT NULL,
    skill_id BLOB NOT NULL,
    skill TEXT NOT NULL,
    function TEXT NOT NULL,
    digest BLOB NOT NULL,
    key_id TEXT NOT NULL,
    door TEXT NOT NULL,
    session_id TEXT,
    parent_id BLOB,
    attempts INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    queue_us INTEGER NOT NULL,
    args_sha256 BLOB NOT NULL,
    args_bytes INTEGER NOT NULL,
    args_copy TEXT NOT NULL"
    };
}

/// Their names.
macro_rules! names_at_start {
    () => {
        "id, owner, status, skill_id, skill, function, digest, key_id, door, session_id, parent_id, attempts,
    created_at, started_at, queue_us, args_sha256, args_bytes, args_copy"
    };
}

/// The names of what only ended ones have.
macro_rules! names_at_end {
    () => {
        "finished_at, duration_us, fuel, memory_peak_bytes, egress_bytes, exit_code, error_code, error_message,
    error_detail, denials, output_sha256, output_bytes, output_copy"
    };
}

/// Executions that have ended never change, and are clustered by their time-ordered id. Those that
/// are open stand in a small table, which is empty when nothing runs, at random places, so that
/// they come and go in the same few pages. `skill_executions` shows both.
const OPEN_AND_ENDED: &str = concat!(
    "CREATE TABLE open_executions (
    place INTEGER NOT NULL PRIMARY KEY,
    id BLOB NOT NULL,
    ",
    at_start!(),
    "
) STRICT;

CREATE TABLE ended_executions (
    id BLOB NOT NULL PRIMARY KEY,
    ",
    at_start!(),
    ",
    finished_at INTEGER,
    duration_us INTEGER,
    fuel INTEGER NOT NULL,
    memory_peak_bytes INTEGER NOT NULL,
    egress_bytes INTEGER NOT NULL,
    exit_code INTEGER,
    error_code TEXT,
    error_message TEXT,
    error_detail TEXT,
    denials TEXT,
    output_sha256 BLOB,
    output_bytes INTEGER,
    output_copy TEXT
) STRICT, WITHOUT ROWID;

INSERT INTO ended_executions (",
    names_at_start!(),
    ", ",
    names_at_end!(),
    ")
SELECT ",
    names_at_start!(),
    ", ",
    names_at_end!(),
    " FROM skill_executions WHERE status NOT IN ('pending', 'running');

INSERT INTO open_executions (",
    names_at_start!(),
    ")
SELECT ",
    names_at_start!(),
    " FROM skill_executions WHERE status IN ('pending', 'running');

DROP TABLE skill_executions;

CREATE INDEX ended_executions_owner ON ended_executions (owner, id);
CREATE INDEX ended_executions_session ON ended_executions (owner, session_id, id) WHERE session_id IS NOT NULL;
CREATE INDEX ended_executions_parent ON ended_executions (parent_id, id) WHERE parent_id IS NOT NULL;

CREATE VIEW skill_executions AS
SELECT ",
    names_at_start!(),
    ", ",
    names_at_end!(),
    " FROM ended_executions
UNION ALL
SELECT ",
    names_at_start!(),
    ", NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM open_executions;"
);

/// What registered before could ask for no network.
const FROZEN_NETWORK: &str = "ALTER TABLE skills ADD COLUMN frozen_network TEXT NOT NULL DEFAULT '[]'";

/// Which request became which execution, for those that may come twice.
const IDEMPOTENCY: &str = "CREATE TABLE idempotency (
    key_id TEXT NOT NULL,
    word TEXT NOT NULL,
    request BLOB NOT NULL,
    execution_id BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (key_id, word)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (created_at);";

/// What registered before could ask for no workspace.
const FROZEN_WORKSPACE: &str = r#"ALTER TABLE skills ADD COLUMN frozen_workspace TEXT NOT NULL DEFAULT '"none"'"#;

/// Secrets, sealed. What registered before could ask for none.
const SECRETS: &str = "
ALTER TABLE skills ADD COLUMN frozen_secrets TEXT NOT NULL DEFAULT '[]';

CREATE TABLE secrets (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    origin TEXT NOT NULL,
    header TEXT NOT NULL,
    prefix TEXT NOT NULL,
    shared INTEGER NOT NULL,
    key_id BLOB NOT NULL,
    nonce BLOB NOT NULL,
    sealed BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
";

/// What the guest logged, as JSON; NULL where it logged nothing.
const LOG: &str = "ALTER TABLE execution_results ADD COLUMN log TEXT;
    ALTER TABLE execution_results ADD COLUMN log_truncated INTEGER NOT NULL DEFAULT 0";

/// What skills keep, and how much of that each owner has.
const KEY_VALUE: &str = "
CREATE TABLE kv_entries (
    owner TEXT NOT NULL,
    skill_owner TEXT NOT NULL,
    skill TEXT NOT NULL,
    bucket TEXT NOT NULL,
    key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    version INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (owner, skill_owner, skill, bucket, key)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX kv_entries_in_order ON kv_entries (owner, skill_owner, skill, bucket, seq);

CREATE TABLE kv_usage (
    owner TEXT NOT NULL PRIMARY KEY,
    keys INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    writes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// What registered before could call no skill.
const FROZEN_SKILLS: &str = "ALTER TABLE skills ADD COLUMN frozen_skills TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE skills ADD COLUMN pinned TEXT NOT NULL DEFAULT '[]'";

/// What registered before was tried once; the attempts before the last one, as JSON.
const RETRY: &str = r#"ALTER TABLE skills ADD COLUMN retry TEXT NOT NULL
    DEFAULT '{"maxRetries":0,"on":["timeout","trap","unavailable"],"backoffMs":200}';
ALTER TABLE ended_executions ADD COLUMN earlier TEXT"#;

/// What registered before asked nobody and is told to nobody; words that stand for versions.
const ALIASES_AND_APPROVAL: &str = r#"
ALTER TABLE skills ADD COLUMN public INTEGER NOT NULL DEFAULT 0;
ALTER TABLE skills ADD COLUMN approval TEXT NOT NULL DEFAULT '"none"';

CREATE TABLE skill_aliases (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    alias TEXT NOT NULL,
    version TEXT NOT NULL,
    key_id TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (owner, name, alias)
) STRICT, WITHOUT ROWID;
"#;

/// The `SKILL.md` of those that came with one, apart from what is read at each start.
const SKILL_TEXTS: &str = "CREATE TABLE skill_texts (
    id BLOB NOT NULL PRIMARY KEY,
    skill_md TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// What registered before got a fresh instance for each call.
const REUSE: &str = "ALTER TABLE skills ADD COLUMN reuse INTEGER NOT NULL DEFAULT 0;
ALTER TABLE skills ADD COLUMN frozen_reuse INTEGER NOT NULL DEFAULT 0";

/// What was registered before was uploaded.
const SOURCE: &str = "ALTER TABLE skills ADD COLUMN source TEXT";

/// What executions that wait for their turn need to begin, as JSON.
const QUEUED_REQUESTS: &str = "CREATE TABLE queued_requests (
    execution_id BLOB NOT NULL PRIMARY KEY,
    request TEXT NOT NULL
) STRICT;";
/// What keys with budgets used before was not counted.
const KEY_DAYS: &str = "CREATE TABLE key_days (
    key_id TEXT NOT NULL,
    day INTEGER NOT NULL,
    executions INTEGER NOT NULL,
    fuel INTEGER NOT NULL,
    egress_bytes INTEGER NOT NULL,
    PRIMARY KEY (key_id, day)
) STRICT, WITHOUT ROWID";

/// Up to which record of the journal all is in the database.
const JOURNAL: &str = "CREATE TABLE journal (applied INTEGER NOT NULL) STRICT;
INSERT INTO journal VALUES (0);";

/// What owners used, counted once from what is on record; and skills that run again after a crash, which
/// none did before.
const USAGE: &str = include_str!("migrations/usage.sql");
/// What ran before had no interceptors around it.
const INTERCEPTORS: &str = include_str!("migrations/interceptors.sql");
/// What ended and was done before is in no chain.
const AUDIT_CHAIN: &str = include_str!("migrations/audit_chain.sql");

/// Counted once, and then with each that ends.
const EXECUTION_COUNTS: &str = include_str!("migrations/execution_counts.sql");

const STEPS: &[&str] = &[
    FIRST,
    OPEN_AND_ENDED,
    FROZEN_NETWORK,
    IDEMPOTENCY,
    FROZEN_WORKSPACE,
    SECRETS,
    LOG,
    KEY_VALUE,
    FROZEN_SKILLS,
    RETRY,
    ALIASES_AND_APPROVAL,
    SKILL_TEXTS,
    REUSE,
    SOURCE,
    QUEUED_REQUESTS,
    JOURNAL,
    KEY_DAYS,
    USAGE,
    INTERCEPTORS,
    AUDIT_CHAIN,
    EXECUTION_COUNTS,
    include_str!("migrations/containers.sql"),
];

static MIGRATIONS: LazyLock<Migrations<'static>> =
    LazyLock::new(|| Migrations::new(STEPS.iter().map(|step| M::up(step)).collect()));

/// The schema that the database has, and the one that it will have. Both are numbers of steps.
pub(super) fn versions(connection: &Connection) -> rusqlite::Result<(usize, usize)> {
    let current = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok((current, STEPS.len()))
}

/// Brings the database to the newest schema.
pub(super) fn apply(connection: &mut Connection) -> Result<(), Error> {
    MIGRATIONS.to_latest(connection).map_err(|error| match error {
        MigrationError::MigrationDefinition(_) => super::too_new(),
        other => Error::internal(other),
    })
}

/// Brings the database to an older schema.
#[cfg(test)]
pub(super) fn apply_first(connection: &mut Connection, steps: usize) {
    assert!(MIGRATIONS.to_version(connection, steps).is_ok());
}

/// How many steps come before the one that has this in it.
#[cfg(test)]
pub(super) fn steps_before(text: &str) -> usize {
    STEPS.iter().position(|step| step.contains(text)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
