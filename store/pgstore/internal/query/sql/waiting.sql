-- name: ListWaiting
-- Lists unpublished rows. It reads at most $2 rows after the position of the slowest shard; other shards may have published some of them.
WITH p AS MATERIALIZED (
	SELECT l.id AS shard, l.first_bucket, l.last_bucket, b.snapshot AS base, t.snapshot AS tip, CASE WHEN t.id IS NULL THEN 0 ELSE l.seq END AS tip_seq,
		greatest(b.seq, CASE WHEN t.id IS NULL THEN 0 ELSE l.seq END) AS published_to
	FROM /*schema*/skald_shard AS l
	LEFT JOIN /*schema*/skald_snapshot AS b ON b.id = nullif(split_part(l.base, '-', 1), '')::bigint AND b.token = split_part(l.base, '-', 2)
	LEFT JOIN /*schema*/skald_snapshot AS t ON l.tip <> l.base AND t.id = nullif(split_part(l.tip, '-', 1), '')::bigint AND t.token = split_part(l.tip, '-', 2)
), low AS MATERIALIZED (
	SELECT coalesce(min(coalesce(published_to, 0)), 0) AS seq FROM p
), near AS MATERIALIZED (
	SELECT o.seq, o.id, o.topic, o.type, coalesce(o.key_bytes, convert_to(o.key, 'UTF8')) AS key, o.time, o.txid, o.bucket
	FROM /*schema*/skald_outbox AS o WHERE o.seq > (SELECT seq FROM low) ORDER BY o.seq LIMIT $2::integer
), pending AS (
	SELECT o.seq, p.shard, o.id::text AS id, o.topic, o.type, o.key, o.time, false AS deferred, 0 AS attempts, '' AS reason
	FROM near AS o CROSS JOIN LATERAL (SELECT coalesce(o.bucket, (SELECT get_byte(h, 0) % 4 * 256 + get_byte(h, 1)
		FROM (SELECT sha256(coalesce(o.key, convert_to(o.id::text, 'UTF8'))) AS h) AS s)) AS n OFFSET 0) AS h
	JOIN p ON h.n BETWEEN p.first_bucket AND p.last_bucket
	WHERE (pg_visible_in_snapshot(o.txid, p.base) OR o.seq <= p.tip_seq AND pg_visible_in_snapshot(o.txid, p.tip)) IS NOT TRUE
		AND NOT EXISTS (SELECT FROM /*schema*/skald_deferred AS a WHERE a.seq = o.seq)
	ORDER BY o.seq LIMIT $1::integer
), deferred AS (
	SELECT a.seq, p.shard, a.id, a.topic, a.type, a.key, a.time, true, a.attempts, a.reason
	FROM (SELECT * FROM /*schema*/skald_deferred ORDER BY seq LIMIT $1::integer) AS a JOIN p ON a.bucket BETWEEN p.first_bucket AND p.last_bucket
)
SELECT w.seq, w.shard, w.id, w.topic, w.type, w.key, round(extract(epoch FROM w.time) * 1000000)::bigint,
	greatest(extract(epoch FROM clock_timestamp() - w.time) * 1000, 0)::bigint, w.deferred, w.attempts, w.reason
FROM (SELECT * FROM pending UNION ALL SELECT * FROM deferred) AS w ORDER BY w.seq;
