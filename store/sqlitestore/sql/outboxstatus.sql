-- name: OutboxStatus
SELECT pending, exact, CAST(round(oldest_seconds * 1000) AS INTEGER), deferred FROM skald_backlog;

-- name: OutboxShards
SELECT shard, coalesce(owner, ''), epoch, pending FROM skald_shards ORDER BY shard;
