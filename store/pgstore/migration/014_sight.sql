-- What several processes need to see to one database, and what whoever is left reports of it.

-- What one process at a time sees to, whose it is, and until when.
CREATE TABLE /*schema*/skald_lease (
	name  text PRIMARY KEY, -- retention
	owner text NOT NULL,
	until timestamptz NOT NULL
);

-- How long the retention keeps what is in a table, as it last said. NULL: it has not looked since this column is here.
ALTER TABLE /*schema*/skald_maintained ADD COLUMN keep interval;

CREATE OR REPLACE VIEW /*schema*/skald_maintenance AS
SELECT m.name, m.looked_at, extract(epoch FROM clock_timestamp() - m.looked_at)::double precision AS looked_seconds,
	m.emptied_at, extract(epoch FROM clock_timestamp() - m.emptied_at)::double precision AS emptied_seconds,
	o.at AS oldest_at, extract(epoch FROM clock_timestamp() - o.at)::double precision AS oldest_seconds,
	extract(epoch FROM m.keep)::double precision AS keep_seconds
FROM /*schema*/skald_maintained AS m LEFT JOIN (
	SELECT 'skald_outbox' AS name, (SELECT time FROM /*schema*/skald_outbox ORDER BY seq LIMIT 1) AS at
	UNION ALL
	-- Any mark of each slot: a slot is as old as its marks are, but for two days.
	SELECT 'skald_mark', (SELECT min(r.at) FROM generate_series(0, (SELECT count(*) FROM pg_inherits WHERE inhparent = '/*schema*/skald_mark'::regclass)) AS n
		CROSS JOIN LATERAL (SELECT at FROM /*schema*/skald_mark WHERE slot = n LIMIT 1) AS r)
	UNION ALL
	SELECT 'skald_mark_timeless', (SELECT min(at) FROM /*schema*/skald_mark_timeless)
) AS o ON o.name = m.name;

-- What is kept for each consumer because it could not be taken. It reads what is parked, dead or in quarantine, and nothing else.
CREATE VIEW /*schema*/skald_consumers AS
SELECT consumer, sum(parked)::bigint AS parked, sum(parked_bytes)::bigint AS parked_bytes, min(parked_at) AS parked_at,
	coalesce(greatest(extract(epoch FROM clock_timestamp() - min(parked_at)), 0), 0)::double precision AS parked_seconds,
	sum(dead)::bigint AS dead, min(dead_at) AS dead_at,
	sum(conflicts)::bigint AS conflicts, sum(too_old)::bigint AS too_old, min(quarantined_at) AS quarantined_at,
	coalesce(greatest(extract(epoch FROM clock_timestamp() - min(quarantined_at)), 0), 0)::double precision AS quarantined_seconds
FROM (
	SELECT consumer, count(*) FILTER (WHERE dead_at IS NULL) AS parked, coalesce(sum(bytes) FILTER (WHERE dead_at IS NULL), 0)::bigint AS parked_bytes,
		min(since) FILTER (WHERE dead_at IS NULL) AS parked_at, count(*) FILTER (WHERE dead_at IS NOT NULL) AS dead, min(dead_at) AS dead_at,
		0::bigint AS conflicts, 0::bigint AS too_old, NULL::timestamptz AS quarantined_at
	FROM /*schema*/skald_parked GROUP BY consumer
	UNION ALL
	SELECT consumer, 0, 0, NULL, 0, NULL, count(*) FILTER (WHERE why = -2), count(*) FILTER (WHERE why = -1), min(at)
	FROM /*schema*/skald_quarantine WHERE taken_at IS NULL AND admitted_at IS NULL GROUP BY consumer
) AS k GROUP BY consumer;
