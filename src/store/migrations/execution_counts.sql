-- How many executions of each owner have ended, so that nobody counts a million rows for one page.
CREATE TABLE execution_counts (
    owner TEXT NOT NULL PRIMARY KEY,
    ended INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO execution_counts (owner, ended) SELECT owner, count(*) FROM ended_executions GROUP BY owner;

-- Most executions succeed: only the others need an index to be found among them.
CREATE INDEX ended_executions_unsuccessful ON ended_executions (owner, status, id) WHERE status <> 'success';
