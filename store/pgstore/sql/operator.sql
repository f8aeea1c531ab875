-- name: LockDeferred
-- Against a relay that stores what became of it: that guards the same shard.
SELECT l.id FROM /*schema*/skald_shard AS l WHERE EXISTS (
	SELECT FROM /*schema*/skald_deferred AS a WHERE a.id = $1::text AND a.bucket BETWEEN l.first_bucket AND l.last_bucket)
ORDER BY l.id FOR UPDATE OF l;

-- name: DropDeferred
WITH d AS (DELETE FROM /*schema*/skald_deferred WHERE id = $1::text AND attempts > 0 RETURNING 1)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM d), 'a deferred row');
