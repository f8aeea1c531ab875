-- name: LockLease
-- Locks the assignment of shards, so that one relay at a time gets shards, and later statements see earlier assignments. It fails if the shards
-- belong to another database.
SELECT /*schema*/skald_check_identity('') FROM /*schema*/skald_setting WHERE name = 'shard lock' FOR UPDATE;

-- name: KeepPlace
-- Stores the identity of the database for the shards, and returns its timeline. Only a fail-over changes the timeline. The other parts of the
-- identity change only with a recovery, or in a copy in which nothing ever wrote a message.
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
-- Compares the shards that a relay had with the stored shards. It records the first shard that is unchanged but has no snapshot, or that has an
-- earlier epoch: both mean that the database was restored.
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
-- Registers a relay or extends its lease. The relay is a standby if other relays own or will own all shards, or if one relay must own all
-- shards. Relays that yield do not count while another relay reaches its broker.
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
-- Assigns shards to a relay: all shards of an earlier session of the same owner, then free shards up to its share. It does not assign shards
-- that the relay releases. Shards of a relay that yields are not free until that relay releases them.
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
-- Returns a row with shard -1, and then the shards of the owner. The first row has the number of shards, of live relays that may own shards, of
-- such relays before the owner, and of standbys. It also has 'standby' if the owner is a standby.
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
-- Stores the progress of a shard. It fails if the shard has another owner or epoch.
WITH u AS (
	UPDATE /*schema*/skald_shard SET base = coalesce($4::text, base), tip = coalesce($5::text, tip), seq = coalesce($6::bigint, seq),
		incarnation = coalesce($7::text, incarnation), changed_at = clock_timestamp()
	WHERE id = $1::integer AND epoch = $2::bigint AND token = $3::text AND owner IS NOT NULL
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM u), 'a shard');

-- name: KeepAllProgress
-- Does as KeepProgress for many shards. It returns the shards that the relay still owns, and does not fail for the others.
UPDATE /*schema*/skald_shard AS l SET base = coalesce(p.base, l.base), tip = coalesce(p.tip, l.tip), seq = coalesce(p.seq, l.seq),
	incarnation = coalesce(p.incarnation, l.incarnation), changed_at = clock_timestamp()
FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[])
	AS p(id, epoch, token, base, tip, seq, incarnation)
WHERE l.id = p.id AND l.epoch = p.epoch AND l.token = p.token AND l.owner IS NOT NULL
RETURNING l.id;
