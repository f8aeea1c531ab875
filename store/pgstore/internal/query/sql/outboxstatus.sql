-- name: OutboxShards
-- A walk of skald_shards looks at up to 10,000 rows of the outbox: what the whole outbox has is summed up from it.
SELECT shard, coalesce(owner, ''), epoch, pending, exact, coalesce(round(greatest(extract(epoch FROM clock_timestamp() - oldest_at), 0) * 1000), 0)::bigint,
	deferred
FROM /*schema*/skald_shards ORDER BY shard;
