-- name: OutboxStatus
SELECT pending, exact, round(oldest_seconds * 1000)::bigint, deferred FROM /*schema*/skald_backlog;

-- name: OutboxShards
SELECT shard, coalesce(owner, ''), epoch, pending FROM /*schema*/skald_shards ORDER BY shard;
