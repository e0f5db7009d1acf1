CREATE TABLE keys (
    id TEXT NOT NULL PRIMARY KEY,
    secret_sha256 BLOB NOT NULL UNIQUE,
    previous_sha256 BLOB,
    previous_until INTEGER,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    skills TEXT,
    ceilings TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;

CREATE TABLE components (
    digest BLOB NOT NULL PRIMARY KEY,
    bytes INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE component_owners (
    owner TEXT NOT NULL,
    digest BLOB NOT NULL REFERENCES components (digest),
    PRIMARY KEY (owner, digest)
) STRICT, WITHOUT ROWID;

CREATE TABLE skills (
    id BLOB NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    description TEXT NOT NULL,
    digest BLOB NOT NULL,
    schema TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    mode TEXT NOT NULL,
    tags TEXT NOT NULL,
    source_provider TEXT NOT NULL,
    grants TEXT NOT NULL,
    limits TEXT NOT NULL,
    frozen_limits TEXT NOT NULL,
    functions TEXT NOT NULL,
    imports TEXT NOT NULL,
    warnings TEXT NOT NULL,
    state TEXT NOT NULL,
    problem TEXT,
    registered_by TEXT NOT NULL,
    manifest_digest BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    UNIQUE (owner, name, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE skill_executions (
    id BLOB NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
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
    finished_at INTEGER,
    duration_us INTEGER,
    queue_us INTEGER NOT NULL,
    fuel INTEGER NOT NULL,
    memory_peak_bytes INTEGER NOT NULL,
    egress_bytes INTEGER NOT NULL,
    exit_code INTEGER,
    error_code TEXT,
    error_message TEXT,
    error_detail TEXT,
    denials TEXT,
    args_sha256 BLOB NOT NULL,
    args_bytes INTEGER NOT NULL,
    args_copy TEXT NOT NULL,
    output_sha256 BLOB,
    output_bytes INTEGER,
    output_copy TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX skill_executions_owner ON skill_executions (owner, id);
CREATE INDEX skill_executions_open ON skill_executions (id) WHERE status IN ('pending', 'running');
CREATE INDEX skill_executions_session ON skill_executions (owner, session_id, id) WHERE session_id IS NOT NULL;
CREATE INDEX skill_executions_parent ON skill_executions (parent_id, id) WHERE parent_id IS NOT NULL;

CREATE TABLE execution_results (
    execution_id BLOB NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    output TEXT,
    stdout TEXT NOT NULL,
    stderr TEXT NOT NULL,
    stdout_truncated INTEGER NOT NULL,
    stderr_truncated INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
