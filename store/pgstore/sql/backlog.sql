-- name: Backlog
-- Nothing but views of the contract: an app may read no more.
SELECT coalesce((SELECT value FROM /*schema*/skald_setting WHERE name = 'source'), ''), b.pending,
	round(b.oldest_seconds * 1000)::bigint, b.set_aside,
	coalesce(round(greatest(m.oldest_seconds, 0) * 1000), 0)::bigint,
	(SELECT count(*) FROM /*schema*/skald_lanes WHERE owner IS NULL)
FROM /*schema*/skald_backlog AS b LEFT JOIN /*schema*/skald_maintenance AS m ON m.name = 'skald_outbox';

-- name: KeptFor
SELECT k.consumer, k.parked, k.dead, k.parked_bytes, round(k.parked_seconds * 1000)::bigint, k.conflicts, k.too_old, round(k.quarantined_seconds * 1000)::bigint,
	coalesce(c.calls, 0), coalesce(round(c.seconds * 1000)::bigint, 0)
FROM /*schema*/skald_consumers AS k
LEFT JOIN (SELECT consumer, count(*) AS calls, max(seconds) AS seconds FROM /*schema*/skald_calling GROUP BY consumer) AS c ON c.consumer = k.consumer
ORDER BY k.consumer;
