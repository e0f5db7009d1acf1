-- One row for each execution that ended and each administrative act, in their order; `hash` is over
-- the one before and what the row stands for. What was before is not in it.
CREATE TABLE audit_chain (
    seq INTEGER NOT NULL PRIMARY KEY,
    execution_id BLOB,
    salt BLOB,
    commitments BLOB,
    hash BLOB NOT NULL
) STRICT;

CREATE TABLE admin_acts (
    seq INTEGER NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,
    act TEXT NOT NULL,
    door TEXT,
    count INTEGER NOT NULL,
    owner TEXT,
    key_id TEXT,
    target TEXT,
    details TEXT
) STRICT;

CREATE TABLE audit_checkpoints (
    seq INTEGER NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,
    hash BLOB NOT NULL,
    public_key BLOB NOT NULL,
    signature BLOB NOT NULL
) STRICT;

-- Owners that are being erased: what a crash interrupts, the next start goes on with.
CREATE TABLE erasures (
    owner TEXT NOT NULL PRIMARY KEY,
    pseudonym TEXT NOT NULL,
    begun_at INTEGER NOT NULL
) STRICT;
