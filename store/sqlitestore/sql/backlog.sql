-- name: Backlog
SELECT (SELECT dflt_value FROM pragma_table_info('skald_outbox') WHERE name = 'source'), b.pending,
	CAST(round(b.oldest_seconds * 1000) AS INTEGER), b.deferred,
	CAST(round(max(coalesce(m.oldest_seconds, 0), 0) * 1000) AS INTEGER),
	(SELECT count(*) FROM skald_shard AS l WHERE NOT EXISTS (
		SELECT 1 FROM skald_relay AS r WHERE r.owner = l.owner AND r.session = l.session AND r.until > unixepoch('subsec') * 1000))
FROM skald_backlog AS b LEFT JOIN skald_retention AS m ON m.name = 'skald_outbox';

-- name: Progress
SELECT kind, name, CAST(round(coalesce(heard_seconds, 0) * 1000) AS INTEGER), CAST(round(progress_seconds * 1000) AS INTEGER), topics,
	coalesce(shards, 0), CAST(ceil(coalesce(broker_away_seconds, 0) * 1000) AS INTEGER)
FROM skald_progress ORDER BY kind, name;

-- name: KeptFor
SELECT k.consumer, k.parked, k.dead, k.parked_bytes, k.dead_bytes, CAST(round(k.parked_seconds * 1000) AS INTEGER), k.conflicts, k.too_old, k.quarantined_bytes,
	CAST(round(k.quarantined_seconds * 1000) AS INTEGER), coalesce(c.calls, 0), CAST(round(coalesce(c.seconds, 0) * 1000) AS INTEGER)
FROM skald_consumers AS k
LEFT JOIN (SELECT consumer, count(*) AS calls, max(seconds) AS seconds FROM skald_calls GROUP BY consumer) AS c ON c.consumer = k.consumer
ORDER BY k.consumer;

-- name: CountReservations
SELECT consumer, count(*) FILTER (WHERE until > CAST(unixepoch('subsec') * 1000 AS INTEGER)), count(*) FILTER (WHERE until <= CAST(unixepoch('subsec') * 1000 AS INTEGER))
FROM (SELECT consumer, until FROM skald_reservation LIMIT 10000) GROUP BY consumer ORDER BY consumer;
