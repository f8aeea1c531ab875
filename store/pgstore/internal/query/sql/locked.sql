-- name: ListLocked
-- Lists locked entities. An open transaction that locked an entity has a lock on the table, and its number is in the row. So this statement
-- looks for rows with the number of such a transaction: in the first $3 pages, and among the rows that other transactions wait for. Each
-- savepoint of a transaction has its own number. The list does not have a waiting transaction that has locked no row yet.
WITH l AS MATERIALIZED (
	SELECT locktype, relation, page, tuple, transactionid, virtualtransaction AS vt, pid, mode, granted FROM pg_catalog.pg_locks
	WHERE database IS NULL OR database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
), holder AS MATERIALIZED (
	SELECT DISTINCT vt, pid, EXISTS (SELECT FROM l AS w WHERE w.vt = l.vt AND NOT w.granted) AS waits FROM l
	WHERE locktype = 'relation' AND relation = '/*schema*/skald_entity'::regclass AND mode = 'RowExclusiveLock' AND granted
), number AS MATERIALIZED (
	SELECT l.transactionid AS xid, h.vt, h.pid FROM holder AS h JOIN l ON l.vt = h.vt
	WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
), wanted AS MATERIALIZED (
	SELECT format('(%s,%s)', page, tuple)::tid AS at, count(*) AS n FROM l
	WHERE locktype = 'tuple' AND relation = '/*schema*/skald_entity'::regclass GROUP BY page, tuple
), found AS MATERIALIZED (
	SELECT e.ctid AS at, e.space, e.key, e.version, e.xmax AS xid FROM /*schema*/skald_entity AS e
	WHERE e.ctid < format('(%s,0)', $3::bigint)::tid AND e.xmax IN (SELECT xid FROM number)
	UNION SELECT e.ctid, e.space, e.key, e.version, e.xmax FROM wanted AS w JOIN /*schema*/skald_entity AS e ON e.ctid = w.at
	UNION SELECT e.ctid, e.space, e.key, e.version, e.xmax FROM /*schema*/skald_entity AS e WHERE e.space = $1::text AND e.key = $2::bytea
), listed AS (
	SELECT f.space, f.key, f.version, n.vt, n.pid, coalesce(w.n, 0) AS waiting
	FROM found AS f LEFT JOIN number AS n ON n.xid = f.xid LEFT JOIN wanted AS w ON w.at = f.at
	UNION ALL
	SELECT NULL, NULL, 0, h.vt, h.pid, (SELECT count(*) FROM number AS n JOIN l ON l.transactionid = n.xid WHERE n.vt = h.vt AND NOT l.granted)
	FROM holder AS h WHERE NOT h.waits AND EXISTS (SELECT FROM number AS n WHERE n.vt = h.vt)
		AND NOT EXISTS (SELECT FROM found AS f JOIN number AS n ON n.xid = f.xid WHERE n.vt = h.vt)
)
SELECT o.space IS NULL, coalesce(o.space, ''), o.key, o.version, CASE WHEN o.vt IS NULL THEN ''
		WHEN o.pid IS NULL THEN 'a prepared transaction'
		ELSE concat_ws(' ', s.usename::text, nullif(s.application_name, ''), 'process ' || o.pid) END,
	coalesce(greatest(extract(epoch FROM clock_timestamp() - s.xact_start), 0) * 1000, -1)::bigint, o.waiting::integer
FROM listed AS o LEFT JOIN pg_catalog.pg_stat_activity AS s ON s.pid = o.pid
ORDER BY o.space COLLATE "C", o.key, o.vt LIMIT $4::integer;

-- name: ManyEntities
SELECT pg_relation_size('/*schema*/skald_entity'::regclass) > $1::bigint * current_setting('block_size')::bigint;

-- name: ListReserved
SELECT consumer, source, id, greatest(extract(epoch FROM clock_timestamp() - at) * 1000, 0)::bigint, greatest(extract(epoch FROM until - clock_timestamp()) * 1000, 0)::bigint
FROM /*schema*/skald_reservation WHERE $1::text = '' OR consumer = $1::text ORDER BY consumer, source, id LIMIT $2::integer;
