-- name: LockLease
-- One relay at a time is dealt lanes; what follows sees what those before were dealt. It raises where the lanes speak of
-- another place.
SELECT /*schema*/skald_here('') FROM /*schema*/skald_setting WHERE name = 'lease' FOR UPDATE;

-- name: KeepPlace
-- A failover begins a timeline; nothing else of a place changes without a reseat, but in a copy in which nothing was ever said.
WITH was AS MATERIALIZED (
	SELECT max(timeline) AS timeline FROM /*schema*/skald_lane
), u AS (
	UPDATE /*schema*/skald_lane AS l SET system = p.system, timeline = p.timeline, database = p.database
	FROM /*schema*/skald_place() AS p
	WHERE l.system IS DISTINCT FROM p.system OR l.timeline IS DISTINCT FROM p.timeline OR l.database IS DISTINCT FROM p.database
	RETURNING l.timeline
)
SELECT coalesce((SELECT max(u.timeline) FROM u HAVING max(u.timeline) <> (SELECT timeline FROM was)), 0);

-- name: NoteMoved
-- What a relay knew, and what is here: the first of its lanes that is as it was, without its tick, or at an earlier epoch.
UPDATE /*schema*/skald_setting AS s SET value = m.saw
FROM (SELECT CASE WHEN l.epoch < k.epoch THEN format('lane %s is at epoch %s, a relay held it at epoch %s', l.id, l.epoch, k.epoch)
		ELSE format('tick %s, to which a relay had come in lane %s, is not there', split_part(n.tick, '-', 1), l.id) END AS saw
	FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[], $5::text[]) AS k(id, epoch, token, base, tip)
	JOIN /*schema*/skald_lane AS l ON l.id = k.id CROSS JOIN LATERAL (VALUES (k.base), (k.tip)) AS n(tick)
	WHERE l.epoch < k.epoch OR l.epoch = k.epoch AND l.token = k.token AND n.tick <> '' AND NOT EXISTS (
		SELECT FROM /*schema*/skald_tick AS t WHERE t.id = split_part(n.tick, '-', 1)::bigint AND t.token = split_part(n.tick, '-', 2))
	ORDER BY l.id, n.tick DESC LIMIT 1) AS m
WHERE s.name = 'moved' AND s.value = '';

-- name: ForgetRelays
DELETE FROM /*schema*/skald_relay WHERE until <= clock_timestamp() AND owner <> $1::text;

-- name: KeepRelay
-- It waits if others hold all there is, or will.
INSERT INTO /*schema*/skald_relay AS r (owner, life, until, waits)
SELECT $1::text, $2::text, clock_timestamp() + CASE WHEN w.waits THEN $4::bigint ELSE $3::bigint END * interval '1 microsecond', w.waits
FROM (SELECT (SELECT count(*) FROM /*schema*/skald_relay WHERE NOT waits AND owner <> $1::text) >= (SELECT count(*) FROM /*schema*/skald_lane)
	AND NOT EXISTS (SELECT FROM /*schema*/skald_lane WHERE owner = $1::text) AS waits) AS w
ON CONFLICT (owner) DO UPDATE SET life = excluded.life, until = excluded.until, waits = excluded.waits;

-- name: LeaveRelay
DELETE FROM /*schema*/skald_relay WHERE owner = $1::text AND life = $2::text;

-- name: LeaveLanes
UPDATE /*schema*/skald_lane SET owner = NULL, life = NULL, token = gen_random_uuid()::text, changed_at = clock_timestamp()
WHERE owner = $1::text AND life = $2::text;

-- name: FreeLanes
UPDATE /*schema*/skald_lane SET owner = NULL, life = NULL, token = gen_random_uuid()::text, changed_at = clock_timestamp()
WHERE owner = $1::text AND id = ANY ($2::integer[]);

-- name: TakeLanes
-- All of an earlier life of the owner, then free ones up to its share; not those that it gives back.
WITH live AS MATERIALIZED (
	SELECT owner, life, row_number() OVER (ORDER BY owner COLLATE "C") - 1 AS place
	FROM /*schema*/skald_relay WHERE until > clock_timestamp() AND NOT waits
), room AS MATERIALIZED (
	SELECT coalesce((SELECT l.lanes / r.lives + CASE WHEN place < l.lanes % r.lives THEN 1 ELSE 0 END - l.mine FROM live WHERE owner = $1::text), 0) AS n
	FROM (SELECT count(*) AS lanes, count(*) FILTER (WHERE owner = $1::text) AS mine FROM /*schema*/skald_lane) AS l,
		(SELECT greatest(count(*), 1) AS lives FROM live) AS r
)
UPDATE /*schema*/skald_lane SET owner = $1::text, life = $2::text, epoch = epoch + 1, token = gen_random_uuid()::text, changed_at = clock_timestamp()
WHERE owner = $1::text AND life <> $2::text OR id = ANY (ARRAY(
	SELECT f.id FROM /*schema*/skald_lane AS f
	WHERE f.id <> ALL ($3::integer[]) AND NOT EXISTS (SELECT FROM live AS v WHERE v.owner = f.owner)
	ORDER BY f.id
	LIMIT (SELECT greatest(n, 0) FROM room)));

-- name: Lanes
-- First, as lane -1, how many lanes there are, how many relays live, how many of them come before the owner, and how
-- many wait; 'waits' if the owner does. Then the lanes that the owner holds.
SELECT -1, (SELECT count(*) FROM /*schema*/skald_lane)::integer, count(*) FILTER (WHERE NOT waits)::integer,
	count(*) FILTER (WHERE NOT waits AND owner COLLATE "C" < $1::text), coalesce(max('waits') FILTER (WHERE waits AND owner = $1::text), ''),
	'', '', count(*) FILTER (WHERE waits), ''
FROM /*schema*/skald_relay WHERE until > clock_timestamp()
UNION ALL
SELECT id, first_bucket, last_bucket, epoch, token, base, tip, seq, incarnation
FROM /*schema*/skald_lane WHERE owner = $1::text AND life = $2::text
ORDER BY 1;

-- name: KeepProgress
-- The guard is on the row that is written.
WITH u AS (
	UPDATE /*schema*/skald_lane SET base = coalesce($4::text, base), tip = coalesce($5::text, tip), seq = coalesce($6::bigint, seq),
		incarnation = coalesce($7::text, incarnation), changed_at = clock_timestamp()
	WHERE id = $1::integer AND epoch = $2::bigint AND token = $3::text
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM u), 'a lane');

-- name: KeepAllProgress
-- Each for itself: those that are not returned lost their guard.
UPDATE /*schema*/skald_lane AS l SET base = coalesce(p.base, l.base), tip = coalesce(p.tip, l.tip), seq = coalesce(p.seq, l.seq),
	incarnation = coalesce(p.incarnation, l.incarnation), changed_at = clock_timestamp()
FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[])
	AS p(id, epoch, token, base, tip, seq, incarnation)
WHERE l.id = p.id AND l.epoch = p.epoch AND l.token = p.token
RETURNING l.id;
