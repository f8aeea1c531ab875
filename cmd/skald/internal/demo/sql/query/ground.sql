-- name: TablesInFile
SELECT name FROM sqlite_schema WHERE type IN ('table', 'view');

-- name: TablesInSchema
SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f');

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
