-- name: LockLease
-- One relay at a time is dealt shards; what follows sees what those before were dealt. It raises where the shards speak of
-- another place.
SELECT /*schema*/skald_check_identity('') FROM /*schema*/skald_setting WHERE name = 'shard lock' FOR UPDATE;

-- name: KeepPlace
-- A failover begins a timeline; nothing else of a place changes without a recovery, but in a copy in which nothing was ever said.
WITH was AS MATERIALIZED (
	SELECT max(timeline) AS timeline FROM /*schema*/skald_shard
), u AS (
	UPDATE /*schema*/skald_shard AS l SET system = p.system, timeline = p.timeline, database = p.database
	FROM /*schema*/skald_database_identity() AS p
	WHERE l.system IS DISTINCT FROM p.system OR l.timeline IS DISTINCT FROM p.timeline OR l.database IS DISTINCT FROM p.database
	RETURNING l.timeline
)
SELECT coalesce((SELECT max(u.timeline) FROM u HAVING max(u.timeline) <> (SELECT timeline FROM was)), 0);

-- name: NoteMoved
-- What a relay knew, and what is here: the first of its shards that is as it was, without its snapshot, or at an earlier epoch.
UPDATE /*schema*/skald_setting AS s SET value = m.saw
FROM (SELECT CASE WHEN l.epoch < k.epoch THEN format('shard %s is at epoch %s, a relay held it at epoch %s', l.id, l.epoch, k.epoch)
		ELSE format('snapshot %s, to which a relay had come in shard %s, is not there', split_part(n.snapshot, '-', 1), l.id) END AS saw
	FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[], $5::text[]) AS k(id, epoch, token, base, tip)
	JOIN /*schema*/skald_shard AS l ON l.id = k.id CROSS JOIN LATERAL (VALUES (k.base), (k.tip)) AS n(snapshot)
	WHERE l.epoch < k.epoch OR l.epoch = k.epoch AND l.token = k.token AND n.snapshot <> '' AND NOT EXISTS (
		SELECT FROM /*schema*/skald_snapshot AS t WHERE t.id = split_part(n.snapshot, '-', 1)::bigint AND t.token = split_part(n.snapshot, '-', 2))
	ORDER BY l.id, n.snapshot DESC LIMIT 1) AS m
WHERE s.name = 'recovery reason' AND s.value = '';

-- name: ForgetRelays
DELETE FROM /*schema*/skald_relay WHERE until <= clock_timestamp() AND owner <> $1::text;

-- name: KeepRelay
-- It waits if others hold all there is, or will, or if another is to hold all. Relays that yield do not count while a broker of a
-- relay answers.
WITH others AS MATERIALIZED (
	SELECT until FROM /*schema*/skald_relay AS o
	WHERE owner <> $1::text AND NOT standby AND NOT (yields AND ($6::bigint = 0
		OR EXISTS (SELECT FROM /*schema*/skald_relay AS a WHERE a.owner <> $1::text AND a.broker_away_at IS NULL AND a.until > clock_timestamp())))
)
INSERT INTO /*schema*/skald_relay AS r (owner, session, until, standby, broker_away_at, yields)
SELECT $1::text, $2::text, clock_timestamp() + CASE WHEN w.standby OR $7::boolean THEN $4::bigint ELSE $3::bigint END * interval '1 microsecond', w.standby,
	CASE WHEN $6::bigint > 0 THEN clock_timestamp() - $6::bigint * interval '1 microsecond' END, $7::boolean
FROM (SELECT ((SELECT count(*) FROM others) >= (SELECT count(*) FROM /*schema*/skald_shard)
	OR $5::boolean AND EXISTS (SELECT FROM others WHERE until > clock_timestamp()))
	AND NOT EXISTS (SELECT FROM /*schema*/skald_shard WHERE owner = $1::text) AS standby) AS w
ON CONFLICT (owner) DO UPDATE SET session = excluded.session, until = excluded.until, standby = excluded.standby,
	broker_away_at = excluded.broker_away_at, yields = excluded.yields;

-- name: LeaveRelay
DELETE FROM /*schema*/skald_relay WHERE owner = $1::text AND session = $2::text;

-- name: LeaveShards
UPDATE /*schema*/skald_shard SET owner = NULL, session = NULL, token = gen_random_uuid()::text, changed_at = clock_timestamp()
WHERE owner = $1::text AND session = $2::text;

-- name: FreeShards
UPDATE /*schema*/skald_shard SET owner = NULL, session = NULL, token = gen_random_uuid()::text, changed_at = clock_timestamp()
WHERE owner = $1::text AND id = ANY ($2::integer[]);

-- name: TakeShards
-- All of an earlier session of the owner, then free ones up to its share; not those that it gives back. A relay that yields gives its
-- shards back by itself: until then they are not free.
WITH alive AS MATERIALIZED (
	SELECT owner, NOT (yields AND EXISTS (SELECT FROM /*schema*/skald_relay WHERE broker_away_at IS NULL AND until > clock_timestamp())) AS works
	FROM /*schema*/skald_relay WHERE until > clock_timestamp() AND NOT standby
), live AS MATERIALIZED (
	SELECT owner, row_number() OVER (ORDER BY owner COLLATE "C") - 1 AS place FROM alive WHERE works
), room AS MATERIALIZED (
	SELECT CASE WHEN $4::boolean AND EXISTS (SELECT FROM live WHERE owner <> $1::text) THEN 0 ELSE coalesce((SELECT l.shards / r.sessions + CASE WHEN place < l.shards % r.sessions THEN 1 ELSE 0 END - l.mine FROM live WHERE owner = $1::text), 0) END AS n
	FROM (SELECT count(*) AS shards, count(*) FILTER (WHERE owner = $1::text) AS mine FROM /*schema*/skald_shard) AS l,
		(SELECT greatest(count(*), 1) AS sessions FROM live) AS r
)
UPDATE /*schema*/skald_shard SET owner = $1::text, session = $2::text, epoch = epoch + 1, token = gen_random_uuid()::text, changed_at = clock_timestamp()
WHERE owner = $1::text AND session <> $2::text OR id = ANY (ARRAY(
	SELECT f.id FROM /*schema*/skald_shard AS f
	WHERE f.id <> ALL ($3::integer[]) AND NOT EXISTS (SELECT FROM alive AS v WHERE v.owner = f.owner)
	ORDER BY f.id
	LIMIT (SELECT greatest(n, 0) FROM room)));

-- name: Shards
-- First, as shard -1, how many shards there are, how many relays live and may hold some, how many of them come before the owner, and how
-- many wait; 'standby' if the owner does. Then the shards that the owner holds.
SELECT -1, (SELECT count(*) FROM /*schema*/skald_shard)::integer, count(*) FILTER (WHERE works)::integer,
	count(*) FILTER (WHERE works AND owner COLLATE "C" < $1::text), coalesce(max('standby') FILTER (WHERE NOT works AND owner = $1::text), ''),
	'', '', count(*) FILTER (WHERE NOT works), ''
FROM (SELECT owner, NOT standby AND NOT (yields
		AND EXISTS (SELECT FROM /*schema*/skald_relay WHERE broker_away_at IS NULL AND until > clock_timestamp())) AS works
	FROM /*schema*/skald_relay WHERE until > clock_timestamp()) AS r
UNION ALL
SELECT id, first_bucket, last_bucket, epoch, token, base, tip, seq, incarnation
FROM /*schema*/skald_shard WHERE owner = $1::text AND session = $2::text
ORDER BY 1;

-- name: KeepProgress
-- The guard is on the row that is written.
WITH u AS (
	UPDATE /*schema*/skald_shard SET base = coalesce($4::text, base), tip = coalesce($5::text, tip), seq = coalesce($6::bigint, seq),
		incarnation = coalesce($7::text, incarnation), changed_at = clock_timestamp()
	WHERE id = $1::integer AND epoch = $2::bigint AND token = $3::text AND owner IS NOT NULL
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM u), 'a shard');

-- name: KeepAllProgress
-- Each for itself: those that are not returned lost their guard.
UPDATE /*schema*/skald_shard AS l SET base = coalesce(p.base, l.base), tip = coalesce(p.tip, l.tip), seq = coalesce(p.seq, l.seq),
	incarnation = coalesce(p.incarnation, l.incarnation), changed_at = clock_timestamp()
FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[])
	AS p(id, epoch, token, base, tip, seq, incarnation)
WHERE l.id = p.id AND l.epoch = p.epoch AND l.token = p.token AND l.owner IS NOT NULL
RETURNING l.id;
