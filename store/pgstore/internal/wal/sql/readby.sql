-- name: ReadByPlace
-- Runs before ReadBySlot: a slot that is created later begins after this place. Flushed, because the place must survive a crash.
SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint, /*server*/;

-- name: ReadBySlot
-- The session is '' if this user may not see the start of the session. The query of the session has the names of its publications.
SELECT s.slot_name IS NOT NULL, coalesce(s.plugin, ''), coalesce(s.database = current_database(), false), coalesce(s.wal_status, ''),
	coalesce(pg_wal_lsn_diff(s.restart_lsn, '0/0'), 0)::bigint, coalesce(pg_wal_lsn_diff(s.confirmed_flush_lsn, '0/0'), 0)::bigint,
	coalesce(s.active_pid, 0), coalesce(s.active_pid || ' ' || extract(epoch FROM a.backend_start), ''),
	coalesce((regexp_match(a.query, '^START_REPLICATION.*publication_names"?\s+''([^'']*)'''))[1], '')
FROM (SELECT) AS one LEFT JOIN pg_catalog.pg_replication_slots AS s ON s.slot_name = $slot
	LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = s.active_pid;

-- name: ReadBySnapshot
-- Runs after ReadBySlot: a transaction that gets its number later commits in the stream of the slot.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text, pg_snapshot_xmax(pg_current_snapshot())::text,
	CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = $publication AND pubviaroot) THEN /*published*/ ELSE '' END,
	pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint;

-- name: ReadByMarked
-- Runs after a snapshot: each transaction in the snapshot committed before this place.
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint;

-- name: ReadByLeft
-- Reports whether there are rows of transactions before number $3 that the snapshot ($1, $2) does not include.
SELECT EXISTS (SELECT FROM /*schema*/skald_outbox AS o WHERE o.txid < $3::text::xid8
	AND NOT coalesce(pg_visible_in_snapshot(o.txid, (SELECT snapshot FROM /*schema*/skald_snapshot WHERE id = $1::bigint AND token = $2::text)), false)
	AND o.txid >= coalesce((SELECT pg_snapshot_xmin(snapshot) FROM /*schema*/skald_snapshot WHERE id = $1::bigint AND token = $2::text), '0'));

-- name: ReadByBases
-- Returns the snapshots that are the positions of the shards.
SELECT DISTINCT base FROM /*schema*/skald_shard;

-- name: ListLeftOut
-- Returns, for each publication with a column list, the columns that it lacks and that the connector of skald debezium config reads. The last
-- column reports whether the publication has payloads; a publication for a connector has them.
SELECT p.pubname::text, string_agg(a.attname::text, ', ' ORDER BY a.attnum),
	EXISTS (SELECT FROM pg_catalog.pg_attribute AS d WHERE d.attrelid = r.prrelid AND d.attnum = ANY (r.prattrs) AND d.attname IN ('data', 'data_bytes'))
FROM pg_catalog.pg_publication_rel AS r JOIN pg_catalog.pg_publication AS p ON p.oid = r.prpubid
	JOIN pg_catalog.pg_attribute AS a ON a.attrelid = r.prrelid AND a.attnum > 0 AND NOT a.attnum = ANY (r.prattrs)
WHERE r.prrelid = '/*schema*/skald_outbox'::regclass AND (a.attname IN ('id', 'source', 'type', 'time', 'key', 'seq', 'content_type', 'subject', 'schema',
		'correlation_id', 'causation_id', 'traceparent', 'headers')
	OR a.attname = 'data' AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute AS d
		WHERE d.attrelid = r.prrelid AND d.attnum = ANY (r.prattrs) AND d.attname = 'data_bytes'))
GROUP BY p.pubname, r.prrelid, r.prattrs ORDER BY p.pubname;
