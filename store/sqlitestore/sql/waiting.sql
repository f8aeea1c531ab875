-- name: ListWaiting
-- Lists unpublished rows. It reads at most ?2 rows after the position of the slowest shard; other shards may have published some of them.
SELECT seq, coalesce(shard, -1), id, topic, type, key, CAST(round(unixepoch(time, 'subsec') * 1000) AS INTEGER),
	max(CAST(round((unixepoch('subsec') - unixepoch(time, 'subsec')) * 1000) AS INTEGER), 0), deferred, attempts, reason
FROM (
	SELECT * FROM (
		SELECT o.seq, p.shard, o.id, o.topic, o.type, coalesce(o.key_bytes, CAST(o.key AS BLOB)) AS key, o.time, 0 AS deferred, 0 AS attempts, '' AS reason
		FROM (SELECT * FROM skald_outbox WHERE seq > (SELECT min(published_to) FROM skald_shard_position) ORDER BY seq LIMIT ?2) AS o
		LEFT JOIN skald_shard_position AS p ON o.bucket BETWEEN p.first_bucket AND p.last_bucket
		WHERE o.seq > coalesce(p.published_to, 0) AND NOT EXISTS (SELECT 1 FROM skald_deferred AS a WHERE a.seq = o.seq)
		ORDER BY o.seq LIMIT ?1
	)
	UNION ALL
	SELECT * FROM (
		SELECT a.seq, p.shard, a.id, a.topic, a.type, a.held, a.time, 1, a.attempts, a.reason
		FROM skald_deferred AS a LEFT JOIN skald_shard_position AS p ON a.bucket BETWEEN p.first_bucket AND p.last_bucket ORDER BY a.seq LIMIT ?1
	)
) ORDER BY seq;
