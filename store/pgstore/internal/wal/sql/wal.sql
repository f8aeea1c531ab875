-- name: WALSettle
-- Runs before a look, in the same transaction: the look includes every transaction that this snapshot includes.
SELECT pg_current_snapshot()::text;

-- name: WALWatch
-- Returns the WAL position and the identity of this server, and a version of the publication that changes with it. The version is '' if the
-- publication may lack rows of the outbox.
SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint, /*server*/, /*published*/;

-- name: WALServer
(SELECT i.system || ' ' || i.timeline || ' ' || i.database FROM /*schema*/skald_database_identity() AS i)

-- name: WALPublished
coalesce((SELECT p.oid || ' ' || p.xmin || coalesce(' ' || r.oid || ' ' || r.xmin, '') || coalesce(' ' || n.oid || ' ' || n.xmin, '')
	FROM pg_catalog.pg_publication AS p JOIN pg_catalog.pg_class AS c ON c.oid = '/*schema*/skald_outbox'::regclass
		LEFT JOIN pg_catalog.pg_publication_rel AS r ON r.prpubid = p.oid AND r.prrelid = c.oid
		LEFT JOIN pg_catalog.pg_publication_namespace AS n ON n.pnpubid = p.oid AND n.pnnspid = c.relnamespace
	WHERE p.pubname = $slot AND p.pubinsert AND r.prqual IS NULL AND (p.puballtables OR r.oid IS NOT NULL OR n.oid IS NOT NULL)), '')

-- name: WALState
-- Has no parameters, because it runs on a connection for replication.
SELECT current_setting('wal_level'), CASE WHEN pg_is_in_recovery() THEN '' ELSE /*server*/ END, current_setting('server_version_num'),
	EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = $slot), /*published*/,
	s.slot_name IS NOT NULL, coalesce(s.plugin, ''), coalesce(s.database, ''), coalesce(s.database = current_database(), false),
	coalesce(s.active_pid, 0), coalesce(s.wal_status, '')
FROM (SELECT) AS one LEFT JOIN pg_catalog.pg_replication_slots AS s ON s.slot_name = $slot;

-- name: WALPublish
-- Publishes only seq, because the relay reads the rows from the table.
CREATE PUBLICATION $publication FOR TABLE /*schema*/skald_outbox (seq) WITH (publish = 'insert', publish_via_partition_root = true);

-- name: WALMakeSlot
SELECT pg_create_logical_replication_slot($slot, 'pgoutput');

-- name: WALMakeFailoverSlot
-- From PostgreSQL 17: a slot that a standby can synchronize.
SELECT pg_create_logical_replication_slot($slot, 'pgoutput', failover => true);

-- name: WALDropSlot
SELECT pg_drop_replication_slot($slot);

-- name: WALAdvance
-- Moves the slot to the present position. A look finds the commits before it.
SELECT pg_replication_slot_advance($slot, greatest(pg_current_wal_flush_lsn(), confirmed_flush_lsn))
FROM pg_catalog.pg_replication_slots WHERE slot_name = $slot;

-- name: WALNumber
-- Returns a new transaction number. A transaction that committed before the start of the stream has a smaller number.
SELECT pg_current_xact_id()::text;

-- name: WALName
-- Returns the default name of the slot. It has the name of the database, because slot names are unique in the whole cluster.
SELECT left('skald_' || regexp_replace(lower(current_database() || '_' || $schema), '[^a-z0-9_]', '_', 'g'), 63);
