-- name: Backlog
-- Reads only public views, because the role of an app may read no other tables.
SELECT coalesce((SELECT value FROM /*schema*/skald_setting WHERE name = 'source'), ''), b.pending,
	round(b.oldest_seconds * 1000)::bigint, b.deferred,
	coalesce(round(greatest(m.oldest_seconds, 0) * 1000), 0)::bigint,
	(SELECT count(*) FROM /*schema*/skald_shards WHERE owner IS NULL)
FROM /*schema*/skald_backlog AS b LEFT JOIN /*schema*/skald_retention AS m ON m.name = 'skald_outbox';

-- name: BacklogRest
-- Returns the parts of Backlog that OutboxShards does not have.
SELECT coalesce((SELECT value FROM /*schema*/skald_setting WHERE name = 'source'), ''),
	coalesce((SELECT round(greatest(oldest_seconds, 0) * 1000) FROM /*schema*/skald_retention WHERE name = 'skald_outbox'), 0)::bigint;

-- name: Progress
-- Returns the topics as JSON, because all modes of pgx and database/sql read JSON in the same way.
SELECT kind, name, coalesce(round(heard_seconds * 1000), 0)::bigint, round(progress_seconds * 1000)::bigint, array_to_json(topics)::text,
	coalesce(shards, 0), coalesce(ceil(broker_away_seconds * 1000), 0)::bigint
FROM /*schema*/skald_progress ORDER BY kind COLLATE "C", name COLLATE "C";

-- name: KeptFor
SELECT k.consumer, k.parked, k.dead, k.parked_bytes, k.dead_bytes, round(k.parked_seconds * 1000)::bigint, k.conflicts, k.too_old, k.quarantined_bytes, round(k.quarantined_seconds * 1000)::bigint,
	coalesce(c.calls, 0), coalesce(round(c.seconds * 1000)::bigint, 0)
FROM /*schema*/skald_consumers AS k
LEFT JOIN (SELECT consumer, count(*) AS calls, max(seconds) AS seconds FROM /*schema*/skald_calls GROUP BY consumer) AS c ON c.consumer = k.consumer
ORDER BY k.consumer;
