-- Interceptors, as JSON: they are all in memory, and are read at the start only.
CREATE TABLE interceptors (
    id BLOB NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    record TEXT NOT NULL,
    UNIQUE (owner, name)
) STRICT, WITHOUT ROWID;

-- What webhooks are signed with, sealed. Those before the newest sign until `until`.
CREATE TABLE webhook_secrets (
    interceptor_id BLOB NOT NULL,
    version INTEGER NOT NULL,
    key_id BLOB NOT NULL,
    nonce BLOB NOT NULL,
    sealed BLOB NOT NULL,
    until INTEGER,
    PRIMARY KEY (interceptor_id, version)
) STRICT, WITHOUT ROWID;

-- What interceptors did to executions, as JSON.
CREATE TABLE interceptions (
    execution_id BLOB NOT NULL PRIMARY KEY,
    decisions TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Which webhooks are still to be told of the end of which executions; with a number, those that are
-- not tried any more.
CREATE TABLE webhook_outbox (
    interceptor_id BLOB NOT NULL,
    execution_id BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    dead INTEGER,
    problem TEXT,
    PRIMARY KEY (interceptor_id, execution_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_outbox_due ON webhook_outbox (interceptor_id, due_at) WHERE dead IS NULL;
CREATE UNIQUE INDEX webhook_outbox_dead ON webhook_outbox (interceptor_id, dead) WHERE dead IS NOT NULL;
