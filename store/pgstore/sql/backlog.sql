-- name: Backlog
-- Nothing but views of the contract: an app may read no more.
SELECT coalesce((SELECT value FROM /*schema*/skald_setting WHERE name = 'source'), ''), b.pending,
	round(b.oldest_seconds * 1000)::bigint, b.set_aside,
	coalesce(round(greatest(m.oldest_seconds, 0) * 1000), 0)::bigint,
	(SELECT count(*) FROM /*schema*/skald_lanes WHERE owner IS NULL)
FROM /*schema*/skald_backlog AS b LEFT JOIN /*schema*/skald_maintenance AS m ON m.name = 'skald_outbox';

-- name: KeptFor
SELECT consumer, parked, dead, parked_bytes, round(parked_seconds * 1000)::bigint, conflicts, too_old, round(quarantined_seconds * 1000)::bigint
FROM /*schema*/skald_consumers ORDER BY consumer;
