-- name: Make
CREATE TABLE /*schema*/demo_run (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    prefix     TEXT NOT NULL,
    seed       TEXT NOT NULL,
    orders     BIGINT NOT NULL,
    sabotage   TEXT NOT NULL,
    style      TEXT NOT NULL,
    cluster    TEXT NOT NULL,  -- the broker's id
    topics     TEXT NOT NULL,  -- the ids by name of those that the run made, as JSON
    started_at TEXT NOT NULL,
    report     TEXT NOT NULL   -- of the run that is finished, as JSON; '' until then
);

-- name: Claim
INSERT INTO /*schema*/demo_run (id, prefix, seed, orders, sabotage, style, cluster, topics, started_at, report)
VALUES (1, $1, $2, $3, $4, $5, $6, '{}', $7, '');

-- name: Claimed
SELECT prefix, seed, orders, sabotage, style, cluster, topics, report FROM /*schema*/demo_run;

-- name: Topics
UPDATE /*schema*/demo_run SET topics = $1;

-- name: Finish
UPDATE /*schema*/demo_run SET report = $1;

-- name: TablesInFile
SELECT name FROM sqlite_schema WHERE type IN ('table', 'view');

-- name: TablesInSchema
SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f');

-- name: LargestRow
SELECT COALESCE(MAX(seq), 0) FROM /*schema*/skald_outbox;

-- name: LatestRow
SELECT COALESCE(MAX((extract(epoch FROM time) * 1000000)::bigint), 0) FROM /*schema*/skald_outbox;

-- name: LastNumber
SELECT last_value FROM /*schema*/skald_outbox_seq_seq;

-- name: LatestTime
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: Lock
-- Until the end of the transaction.
SELECT pg_try_advisory_xact_lock(hashtextextended('skald demo ' || $1::text, 0));

-- name: Drops
-- What takes the demo's objects out of the schema $1, in the order in which they need each other; $2 are the tables that
-- are not Skald's. The schema goes if it is the user's own.
SELECT statement FROM (
    SELECT 1 AS key_lock, 'DROP VIEW ' || string_agg(format('%I.%I', n.nspname, c.relname), ', ') AS statement
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1::text AND c.relkind = 'v' AND c.relname LIKE 'skald\_%'
    UNION ALL
    SELECT 2, 'DROP TABLE ' || string_agg(format('%I.%I', n.nspname, c.relname), ', ')
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1::text AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND (c.relname LIKE 'skald\_%' OR c.relname::text = ANY ($2::text[]))
    UNION ALL
    SELECT 3, 'DROP SEQUENCE ' || string_agg(format('%I.%I', n.nspname, c.relname), ', ')
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1::text AND c.relkind = 'S' AND c.relname LIKE 'skald\_%'
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d -- a column's own goes with it
                      WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')
                        AND d.refclassid = 'pg_catalog.pg_class'::regclass)
    UNION ALL
    SELECT 4, 'DROP ROUTINE ' || string_agg(format('%I.%I(%s)', n.nspname, p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid)), ', ')
    FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = $1::text AND p.proname LIKE 'skald\_%'
    UNION ALL
    SELECT 5, format('DROP SCHEMA %I', nspname)
    FROM pg_catalog.pg_namespace WHERE nspname = $1::text AND pg_catalog.pg_has_role(nspowner, 'USAGE')
) AS drops WHERE statement IS NOT NULL ORDER BY key_lock;
