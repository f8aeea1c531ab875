-- name: Encoding
-- Reads pg_namespace, because to_regnamespace uses a cache. The cache may lack a schema that a rival created while this migration waited for its
-- lock.
SELECT current_setting('server_encoding'), current_setting('client_encoding'), current_database(), EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text);

-- name: BoundIdle
-- Sets the timeout that ends the transaction of a paused process, so that it does not keep its locks forever.
SELECT set_config('idle_in_transaction_session_timeout', $1::text, true);

-- name: LockMigrations
-- Locks until the end of the transaction, so that two migrations run one after the other.
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
SELECT coalesce(string_agg(version::text, ','), ''), coalesce(max(builds), 0) FROM /*schema*/skald_migration;

-- name: MissingRight
-- Returns the first missing right, for example "INSERT on skald_outbox", with the statement that grants it. It ignores missing tables, because
-- then the tables have another version, which Version reports.
SELECT w.privilege || ' on ' || w.what,
	format('GRANT %s%s ON %s TO %I', w.privilege, ' (' || w.columns || ')', w.target, current_user)
FROM (
	SELECT n.n, n.privilege, 'schema ' || s.nspname AS what, NULL AS columns, format('SCHEMA %I', s.nspname) AS target,
		has_schema_privilege(s.oid, n.privilege) AS has
	FROM unnest($2::text[], $4::text[]) WITH ORDINALITY AS n(privilege, kind, n) JOIN pg_namespace AS s ON n.kind = 'SCHEMA'
	WHERE s.nspname = $1::text
	UNION ALL
	SELECT n.n, n.privilege, c.relname, nullif(n.columns, ''), format('%I.%I', s.nspname, c.relname),
		CASE WHEN n.columns = '' THEN has_table_privilege(c.oid, n.privilege) ELSE (
			SELECT bool_and(has_column_privilege(c.oid, a.attnum, n.privilege)) FROM pg_attribute AS a
			WHERE a.attrelid = c.oid AND a.attname = ANY (string_to_array(n.columns, ', '))) END
	FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS n(privilege, columns, kind, name, n)
	JOIN pg_namespace AS s ON s.nspname = $1::text
	JOIN pg_class AS p ON n.kind IN ('TABLE', 'LEAF') AND p.relname = n.name AND p.relnamespace = s.oid
	CROSS JOIN LATERAL (
		SELECT p.oid WHERE n.kind = 'TABLE' UNION ALL SELECT i.inhrelid FROM pg_inherits AS i WHERE n.kind = 'LEAF' AND i.inhparent = p.oid) AS l
	JOIN pg_class AS c ON c.oid = l.oid
	UNION ALL
	SELECT n.n, n.privilege, c.relname, NULL, format('SEQUENCE %I.%I', s.nspname, c.relname), has_sequence_privilege(c.oid, n.privilege)
	FROM unnest($2::text[], $4::text[], $5::text[]) WITH ORDINALITY AS n(privilege, kind, name, n)
	JOIN pg_class AS c ON n.kind = 'SEQUENCE' AND c.relname = n.name
	JOIN pg_namespace AS s ON s.oid = c.relnamespace
	WHERE s.nspname = $1::text
	UNION ALL
	SELECT n.n, n.privilege, 'function ' || f.proname, NULL, format('FUNCTION %I.%I', s.nspname, f.proname), has_function_privilege(f.oid, n.privilege)
	FROM unnest($2::text[], $4::text[], $5::text[]) WITH ORDINALITY AS n(privilege, kind, name, n)
	JOIN pg_proc AS f ON n.kind = 'FUNCTION' AND f.proname = n.name
	JOIN pg_namespace AS s ON s.oid = f.pronamespace
	WHERE s.nspname = $1::text
) AS w
WHERE NOT w.has
ORDER BY w.n, w.what
LIMIT 1;

-- name: LockShort
-- Sets the maximum wait for a table lock. Other transactions queue behind the lock and wait as long.
SELECT set_config('lock_timeout', $1::text, true);

-- name: Clock
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: StoreRing
INSERT INTO /*schema*/skald_setting (name, value) VALUES ($1::text, $2::text) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: HasLeaf
SELECT to_regclass($1::text) IS NOT NULL;

-- name: Like
-- Returns the statements that give the leaf $2 the owner, the rights and the storage parameters of the leaf $1.
SELECT format('ALTER TABLE %s OWNER TO %I', $2::text, pg_get_userbyid(relowner)) FROM pg_class WHERE oid = $1::text::regclass
UNION ALL
SELECT format('ALTER TABLE %s SET (%s)', $2::text, array_to_string(reloptions, ', '))
FROM pg_class WHERE oid = $1::text::regclass AND reloptions IS NOT NULL
UNION ALL
SELECT format('GRANT %s ON %s TO %s%s', a.privilege_type, $2::text, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
	CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM pg_class, aclexplode(relacl) AS a WHERE oid = $1::text::regclass AND a.grantee <> relowner;

-- name: NewRowLeaf
-- Creates a leaf without attaching it. CREATE … PARTITION OF would wait for every open writer, and other transactions would queue behind it.
CREATE TABLE /*schema*/skald_outbox_0 (LIKE /*schema*/skald_outbox INCLUDING ALL EXCLUDING IDENTITY);

-- name: AttachRowLeaf
ALTER TABLE /*schema*/skald_outbox ATTACH PARTITION /*schema*/skald_outbox_0 FOR VALUES IN (/*slot*/0);

-- name: RowSlots
-- Changes only the default of the parent table, because an INSERT uses that default.
ALTER TABLE ONLY /*schema*/skald_outbox ALTER COLUMN slot SET DEFAULT (floor(date_part('epoch', now()) / 86400)::bigint % /*slots*/10)::smallint;
