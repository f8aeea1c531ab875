-- name: OutboxShards
-- Reads the state of each shard. The caller also computes the totals from it, because skald_shards reads up to 10,000 rows of the outbox.
SELECT shard, coalesce(owner, ''), epoch, pending, exact, coalesce(round(greatest(extract(epoch FROM clock_timestamp() - oldest_at), 0) * 1000), 0)::bigint,
	deferred
FROM /*schema*/skald_shards ORDER BY shard;
