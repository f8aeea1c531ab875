-- name: Make
CREATE TABLE /*schema*/demo_run (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    prefix     TEXT NOT NULL,
    seed       TEXT NOT NULL,
    orders     BIGINT NOT NULL,
    sabotage   TEXT NOT NULL,
    cluster    TEXT NOT NULL,  -- the broker's id
    topics     TEXT NOT NULL,  -- the ids by name of those that the run made, as JSON
    started_at TEXT NOT NULL,
    report     TEXT NOT NULL   -- of the run that is finished, as JSON; '' until then
);

-- name: Claim
INSERT INTO /*schema*/demo_run (id, prefix, seed, orders, sabotage, cluster, topics, started_at, report)
VALUES (1, $1, $2, $3, $4, $5, '{}', $6, '');

-- name: Claimed
SELECT prefix, seed, orders, sabotage, cluster, topics, report FROM /*schema*/demo_run;

-- name: Topics
UPDATE /*schema*/demo_run SET topics = $1;

-- name: Finish
UPDATE /*schema*/demo_run SET report = $1;

-- name: TablesInFile
SELECT name FROM sqlite_schema WHERE type = 'table';

-- name: TablesInSchema
SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f');

-- name: LargestRow
SELECT COALESCE(MAX(seq), 0) FROM /*schema*/skald_outbox;

-- name: LatestRow
SELECT COALESCE(MAX((extract(epoch FROM time) * 1000000)::bigint), 0) FROM /*schema*/skald_outbox;

-- name: Lock
-- Until the end of the transaction.
SELECT pg_try_advisory_xact_lock(hashtextextended('skald demo ' || $1::text, 0));
