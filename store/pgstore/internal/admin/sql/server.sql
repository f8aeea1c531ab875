-- name: Blocked
-- Returns sessions that block others and do not wait themselves. pid 0 is a prepared transaction. It cuts the query, because it may contain
-- values.
SELECT b.pid, coalesce(s.usename::text, ''), coalesce(s.application_name, ''), coalesce(s.state, ''),
	coalesce(extract(epoch FROM clock_timestamp() - s.xact_start), 0)::bigint, coalesce(left(regexp_replace(s.query, '\s+', ' ', 'g'), 80), ''),
	count(DISTINCT w.pid)::int, coalesce(max(extract(epoch FROM clock_timestamp() - w.query_start)), 0)::bigint,
	coalesce((array_agg(left(regexp_replace(w.query, '\s+', ' ', 'g'), 80) ORDER BY w.query_start))[1], '')
FROM pg_catalog.pg_stat_activity AS w
CROSS JOIN LATERAL unnest(pg_catalog.pg_blocking_pids(w.pid)) AS b(pid)
LEFT JOIN pg_catalog.pg_stat_activity AS s ON s.pid = b.pid
WHERE w.datname = current_database() AND w.wait_event_type = 'Lock' AND s.wait_event_type IS DISTINCT FROM 'Lock'
GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 8 DESC, 1 LIMIT 5;

-- name: Prepared
SELECT gid, owner::text, greatest(extract(epoch FROM clock_timestamp() - prepared), 0)::bigint
FROM pg_catalog.pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 5;

-- name: Slots
-- Returns the slots of the whole server, because a slot of another database also delays vacuum here.
SELECT slot_name::text, active, greatest(coalesce(age(xmin), 0), coalesce(age(catalog_xmin), 0))::bigint,
	CASE WHEN pg_is_in_recovery() THEN 0 ELSE coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0) END::bigint, coalesce(wal_status, ''),
	current_setting('max_slot_wal_keep_size') = '-1'
FROM pg_catalog.pg_replication_slots ORDER BY slot_name;

-- name: DataFolder
-- Returns the data directory and the size of the database. The directory is empty if this user may not read the setting, or if the server runs
-- on another machine.
SELECT coalesce((SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory'
	AND (inet_server_addr() IS NULL OR inet_server_addr() <<= '127.0.0.0/8' OR inet_server_addr() = '::1')), ''),
	pg_size_pretty(pg_database_size(current_database()));
