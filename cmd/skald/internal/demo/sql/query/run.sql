-- name: Make
CREATE TABLE demo_run (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    prefix     TEXT NOT NULL,
    seed       TEXT NOT NULL,
    orders     BIGINT NOT NULL,
    sabotage   TEXT NOT NULL,
    cluster    TEXT NOT NULL,  -- the broker's; '' until its topics are made
    asked      BOOLEAN NOT NULL, -- they did not exist, and were going to be made
    topics     TEXT NOT NULL,  -- their ids by name, as JSON
    started_at TEXT NOT NULL,
    report     TEXT NOT NULL   -- of the run that is finished, as JSON; '' until then
);

-- name: Claim
INSERT INTO demo_run (id, prefix, seed, orders, sabotage, cluster, asked, topics, started_at, report)
VALUES (1, $1, $2, $3, $4, '', FALSE, '{}', $5, '');

-- name: Claimed
SELECT prefix, seed, orders, sabotage, cluster, asked, topics, report FROM demo_run;

-- name: Ask
UPDATE demo_run SET asked = TRUE;

-- name: Topics
UPDATE demo_run SET cluster = $1, topics = $2;

-- name: Finish
UPDATE demo_run SET report = $1;

-- name: TablesInFile
SELECT name FROM sqlite_schema WHERE type = 'table';

-- name: TablesInSchema
SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f');

-- name: LargestRow
SELECT COALESCE(MAX(seq), 0) FROM skald_outbox;
