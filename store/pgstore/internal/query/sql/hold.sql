-- name: HoldEntities
-- Runs after LockEntity for each entity. A holder that is already in a queue keeps its place. The result is true if no other holder is first in
-- any of the queues.
WITH wanted AS MATERIALIZED (
	SELECT e.row ->> 'space' AS space, convert_to(e.row ->> 'key', 'UTF8') AS key FROM jsonb_array_elements($1::text::jsonb) AS e(row)
), first AS MATERIALIZED (
	SELECT w.space, w.key, h.holder, l.place FROM wanted AS w
	LEFT JOIN LATERAL (SELECT h.holder FROM /*schema*/skald_hold AS h WHERE h.space = w.space AND h.key = w.key ORDER BY h.place LIMIT 1) AS h ON true
	LEFT JOIN LATERAL (SELECT h.place FROM /*schema*/skald_hold AS h WHERE h.space = w.space AND h.key = w.key ORDER BY h.place DESC LIMIT 1) AS l ON true
), entered AS (
	INSERT INTO /*schema*/skald_hold (space, key, place, holder, name, saga_key)
	SELECT f.space, f.key, coalesce(f.place, 0) + 1, $2::text, $3::text, $4::text FROM first AS f
	WHERE NOT EXISTS (SELECT FROM /*schema*/skald_hold AS h WHERE h.holder = $2::text AND h.space = f.space AND h.key = f.key)
)
SELECT NOT EXISTS (SELECT FROM first AS f WHERE f.holder <> $2::text);

-- name: QueueState
SELECT count(*) > 0, coalesce(bool_and(f.holder = $1::text), false) FROM /*schema*/skald_hold AS h CROSS JOIN LATERAL (
	SELECT f.holder FROM /*schema*/skald_hold AS f WHERE f.space = h.space AND f.key = h.key ORDER BY f.place LIMIT 1) AS f
WHERE h.holder = $1::text;

-- name: LockHeldEntities
SELECT count(*) FROM (
	SELECT FROM /*schema*/skald_entity AS e JOIN /*schema*/skald_hold AS h ON h.space = e.space AND h.key = e.key WHERE h.holder = $1::text
	ORDER BY e.space, e.key FOR NO KEY UPDATE OF e) AS e;

-- name: FreeEntities
-- Runs after LockHeldEntities. It wakes the next saga in each queue. If a process is running that saga, the process reads it again. The
-- statement does not wait for a saga that another transaction has locked.
WITH gone AS (
	DELETE FROM /*schema*/skald_hold WHERE holder = $1::text RETURNING space, key, place
), first AS MATERIALIZED (
	SELECT DISTINCT f.name, f.saga_key FROM gone AS g CROSS JOIN LATERAL (
		SELECT h.name, h.saga_key, h.place FROM /*schema*/skald_hold AS h WHERE h.space = g.space AND h.key = g.key AND h.holder <> $1::text
		ORDER BY h.place LIMIT 1) AS f WHERE f.place > g.place
), free AS MATERIALIZED (
	SELECT s.name, s.key FROM first AS f JOIN /*schema*/skald_saga AS s ON s.name = f.name AND s.key = f.saga_key AND s.ended_at IS NULL
	FOR NO KEY UPDATE OF s SKIP LOCKED
)
UPDATE /*schema*/skald_saga AS s SET version = s.version + 1, session = '', due = clock_timestamp()
FROM free AS f WHERE s.name = f.name AND s.key = f.key;

-- name: EntityHolders
SELECT h.space, h.key, h.holder, h.name, h.saga_key, (extract(epoch FROM h.since) * 1000000)::bigint, 0, 0
FROM jsonb_array_elements($1::text::jsonb) AS e(row) CROSS JOIN LATERAL (
	SELECT * FROM /*schema*/skald_hold AS h WHERE h.space = e.row ->> 'space' AND h.key = convert_to(e.row ->> 'key', 'UTF8')
	ORDER BY h.place LIMIT 1) AS h
ORDER BY h.space, h.key;

-- name: ListHolds
SELECT h.space, h.key, h.holder, h.name, h.saga_key, (extract(epoch FROM h.since) * 1000000)::bigint,
	(SELECT count(*) FROM /*schema*/skald_hold AS b WHERE b.space = h.space AND b.key = h.key AND b.place < h.place)::integer,
	(SELECT count(*) FROM /*schema*/skald_hold AS b WHERE b.space = h.space AND b.key = h.key AND b.place > h.place)::integer
FROM (SELECT * FROM /*schema*/skald_hold AS h
	WHERE ($1::text = '' OR h.holder = $1::text) AND ($2::text = '' OR (h.space = $2::text AND h.key = $3::bytea))
	ORDER BY h.space, h.key, h.place LIMIT $4::integer) AS h
ORDER BY h.space, h.key, h.place;
