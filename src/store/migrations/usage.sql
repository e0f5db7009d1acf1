CREATE TABLE usage_days (
    owner TEXT NOT NULL,
    day INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    executions INTEGER NOT NULL,
    fuel INTEGER NOT NULL,
    egress_bytes INTEGER NOT NULL,
    duration_us INTEGER NOT NULL,
    longest_us INTEGER NOT NULL,
    PRIMARY KEY (owner, day, outcome)
) STRICT, WITHOUT ROWID;

INSERT INTO usage_days
SELECT owner, coalesce(started_at, created_at) / 86400000 AS day, coalesce(error_code, status) AS outcome, count(*),
    CAST(min(total(CASE WHEN parent_id IS NULL THEN fuel ELSE 0 END), 4000000000000000000) AS INTEGER),
    CAST(min(total(egress_bytes), 4000000000000000000) AS INTEGER),
    CAST(min(total(duration_us), 4000000000000000000) AS INTEGER),
    coalesce(max(duration_us), 0)
FROM ended_executions GROUP BY 1, 2, 3;

CREATE TABLE result_usage (
    owner TEXT NOT NULL PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO result_usage
SELECT owner, sum(coalesce(octet_length(output), 0) + octet_length(stdout) + octet_length(stderr)
    + coalesce(octet_length(log), 0))
FROM execution_results GROUP BY owner;

CREATE TRIGGER execution_results_forgotten AFTER DELETE ON execution_results BEGIN
    UPDATE result_usage SET bytes = max(0, bytes - coalesce(octet_length(OLD.output), 0) - octet_length(OLD.stdout)
        - octet_length(OLD.stderr) - coalesce(octet_length(OLD.log), 0))
    WHERE owner = OLD.owner;
END;

ALTER TABLE skills ADD COLUMN idempotent INTEGER NOT NULL DEFAULT 0;
