-- name: OutboxShards
-- skald_shards reads up to 10,000 rows of the outbox. The totals of the outbox are computed from its result.
SELECT shard, coalesce(owner, ''), epoch, pending, exact, coalesce(round(greatest(extract(epoch FROM clock_timestamp() - oldest_at), 0) * 1000), 0)::bigint,
	deferred
FROM /*schema*/skald_shards ORDER BY shard;
