-- name: Encoding
SELECT current_setting('server_encoding'), current_database(), to_regnamespace($1::text) IS NOT NULL;

-- name: LockMigrations
-- Until the end of the transaction: two at once go one behind the other.
SELECT pg_advisory_xact_lock(hashtextextended('skald migration ' || $1::text, 0));

-- name: CreateMigrations
CREATE TABLE IF NOT EXISTS /*schema*/skald_migration (
	version  integer PRIMARY KEY,
	name     text NOT NULL,
	checksum text NOT NULL, -- SHA-256 of the file
	builds   integer NOT NULL DEFAULT 0, -- the oldest version that a build must know to work on; 0: any
	at       timestamptz NOT NULL DEFAULT now()
);

-- name: HasMigrations
SELECT to_regclass('/*schema*/skald_migration') IS NOT NULL;

-- name: Applied
SELECT version, name, checksum, builds FROM /*schema*/skald_migration ORDER BY version;

-- name: InsertMigration
INSERT INTO /*schema*/skald_migration (version, name, checksum, builds) VALUES ($1::integer, $2::text, $3::text, $4::integer);

-- name: Source
SELECT value FROM /*schema*/skald_setting WHERE name = 'source';

-- name: InsertSource
INSERT INTO /*schema*/skald_setting (name, value) VALUES ('source', $1::text);

-- name: Version
SELECT coalesce(max(version), 0), coalesce(max(builds), 0) FROM /*schema*/skald_migration;

-- name: MissingRight
-- The first right that is missing, as "INSERT on skald_outbox", with the statement that gives it.
SELECT w.privilege || ' on ' || w.name,
	format('GRANT %s ON %s %s TO %I', w.privilege, w.kind, w.grantee, current_user)
FROM (
	SELECT 0 AS n, 'USAGE' AS privilege, 'schema ' || nspname AS name, 'SCHEMA' AS kind, quote_ident(nspname) AS grantee,
		has_schema_privilege(oid, 'USAGE') AS has
	FROM pg_namespace WHERE nspname = $1::text
	UNION ALL
	SELECT 1, n.privilege, c.relname, 'TABLE', c.oid::regclass::text, has_table_privilege(c.oid, n.privilege)
		OR n.privilege = 'INSERT' AND c.relname = 'skald_outbox' AND has_column_privilege(c.oid, 'topic', 'INSERT')
	FROM pg_class AS c JOIN pg_namespace AS s ON s.oid = c.relnamespace AND s.nspname = $1::text
	JOIN (VALUES ('skald_outbox', 'INSERT'), ('skald_outbox', 'SELECT'), ('skald_mark_timeless', 'INSERT'), ('skald_mark_timeless', 'SELECT'),
		('skald_entity', 'INSERT'), ('skald_entity', 'SELECT'), ('skald_entity', 'UPDATE'),
		('skald_tick', 'INSERT'), ('skald_tick', 'SELECT'), ('skald_lane', 'SELECT'), ('skald_lane', 'UPDATE'),
		('skald_relay', 'INSERT'), ('skald_relay', 'SELECT'), ('skald_relay', 'UPDATE'), ('skald_relay', 'DELETE'),
		('skald_aside', 'INSERT'), ('skald_aside', 'SELECT'), ('skald_aside', 'UPDATE'), ('skald_aside', 'DELETE'),
		('skald_setting', 'SELECT'), ('skald_setting', 'UPDATE')) AS n(relname, privilege) ON n.relname = c.relname
	UNION ALL
	SELECT 2, n.privilege, c.relname, 'TABLE', c.oid::regclass::text, has_table_privilege(c.oid, n.privilege)
	FROM pg_class AS c JOIN pg_namespace AS s ON s.oid = c.relnamespace AND s.nspname = $1::text,
		(VALUES ('INSERT'), ('SELECT')) AS n(privilege)
	WHERE c.relname ~ '^skald_mark_[0-9][0-9]$' AND c.relkind = 'r'
	UNION ALL
	SELECT 3, n.privilege, c.relname, 'SEQUENCE', c.oid::regclass::text, has_sequence_privilege(c.oid, n.privilege)
	FROM pg_class AS c JOIN pg_namespace AS s ON s.oid = c.relnamespace AND s.nspname = $1::text
	JOIN (VALUES ('skald_outbox_seq_seq', 'SELECT'), ('skald_arrival', 'USAGE')) AS n(relname, privilege) ON n.relname = c.relname
) AS w
WHERE NOT w.has
ORDER BY w.n, w.name, w.privilege
LIMIT 1;
