-- name: Now
SELECT floor(extract(epoch FROM clock_timestamp()))::bigint;

-- name: RowsIn
SELECT EXISTS (SELECT FROM /*schema*/skald_outbox_0);

-- name: LockRows
-- First the lock, then the look: a row that commits while we wait for the lock is seen.
LOCK TABLE /*schema*/skald_outbox_0 IN ACCESS EXCLUSIVE MODE;

-- name: Covered
-- A lane covers what its base saw. One that has no base, or one that is not there, covers nothing.
SELECT NOT EXISTS (SELECT FROM /*schema*/skald_outbox_0) OR NOT EXISTS (
	SELECT FROM /*schema*/skald_lane AS l LEFT JOIN /*schema*/skald_tick AS t
		ON l.base <> '' AND t.id = nullif(split_part(l.base, '-', 1), '')::bigint AND t.token = split_part(l.base, '-', 2)
	WHERE t.id IS NULL OR EXISTS (
		SELECT FROM /*schema*/skald_outbox_0 AS o
		WHERE o.txid >= pg_snapshot_xmin(t.snapshot) AND NOT pg_visible_in_snapshot(o.txid, t.snapshot)));

-- name: CountRows
SELECT count(*) FROM /*schema*/skald_outbox_0;

-- name: EmptyRows
TRUNCATE /*schema*/skald_outbox_0;

-- name: MarksIn
SELECT EXISTS (SELECT FROM /*schema*/skald_mark_00);

-- name: LockMarks
LOCK TABLE /*schema*/skald_mark_00 IN ACCESS EXCLUSIVE MODE;

-- name: CountMarks
SELECT count(*) FROM /*schema*/skald_mark_00;

-- name: EmptyMarks
TRUNCATE /*schema*/skald_mark_00;

-- name: Meet
-- Consumers that have a mark in the leaf, by one probe of its key for each, are known from now on.
WITH RECURSIVE c (consumer) AS (
	(SELECT consumer FROM /*schema*/skald_mark_00 ORDER BY consumer LIMIT 1)
	UNION ALL
	SELECT (SELECT m.consumer FROM /*schema*/skald_mark_00 AS m WHERE m.consumer > c.consumer ORDER BY m.consumer LIMIT 1) FROM c WHERE c.consumer IS NOT NULL
)
INSERT INTO /*schema*/skald_floor (consumer) SELECT consumer FROM c WHERE consumer IS NOT NULL
	AND NOT EXISTS (SELECT FROM /*schema*/skald_floor AS f WHERE f.consumer = c.consumer)
ON CONFLICT DO NOTHING;

-- name: Grown
-- Behind the lock on the leaf: whose marks these are has been known for as long as marks are kept. A younger one may still be
-- reading what is older than that.
WITH RECURSIVE c (consumer) AS (
	(SELECT consumer FROM /*schema*/skald_mark_00 ORDER BY consumer LIMIT 1)
	UNION ALL
	SELECT (SELECT m.consumer FROM /*schema*/skald_mark_00 AS m WHERE m.consumer > c.consumer ORDER BY m.consumer LIMIT 1) FROM c WHERE c.consumer IS NOT NULL
)
SELECT /*schema*/skald_guard(NOT EXISTS (
	SELECT FROM c LEFT JOIN /*schema*/skald_floor AS f ON f.consumer = c.consumer
	WHERE c.consumer IS NOT NULL AND (f.since IS NULL OR f.since >= clock_timestamp() - $1::bigint * interval '1 microsecond')), 'a young consumer');

-- name: RaiseFloors
WITH RECURSIVE c (consumer) AS (
	(SELECT consumer FROM /*schema*/skald_mark_00 ORDER BY consumer LIMIT 1)
	UNION ALL
	SELECT (SELECT m.consumer FROM /*schema*/skald_mark_00 AS m WHERE m.consumer > c.consumer ORDER BY m.consumer LIMIT 1) FROM c WHERE c.consumer IS NOT NULL
)
UPDATE /*schema*/skald_floor AS f SET at = greatest(f.at, to_timestamp($1::bigint / 1000.0)) FROM c WHERE f.consumer = c.consumer;

-- name: DeleteAnswers
DELETE FROM /*schema*/skald_answer WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM /*schema*/skald_answer WHERE at < (SELECT clock_timestamp()) - $1::bigint * interval '1 microsecond'
	ORDER BY at LIMIT 5000 FOR UPDATE SKIP LOCKED));

-- name: DeleteQuarantine
-- What was taken; what waits, waits for somebody.
DELETE FROM /*schema*/skald_quarantine WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM /*schema*/skald_quarantine WHERE taken_at < clock_timestamp() - $1::bigint * interval '1 microsecond'
	LIMIT 5000 FOR UPDATE SKIP LOCKED));

-- name: DeleteMarks
-- The clock is asked once: asked for each row it ends no walk of the index, and all that is kept would be looked at each time.
DELETE FROM /*schema*/skald_mark_timeless WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM /*schema*/skald_mark_timeless WHERE at < (SELECT clock_timestamp()) - $1::bigint * interval '1 microsecond'
	ORDER BY at LIMIT 5000 FOR UPDATE SKIP LOCKED));

-- name: CountRest
-- What DeleteMarks and ForgetSteps would delete.
SELECT (SELECT count(*) FROM /*schema*/skald_mark_timeless WHERE at < clock_timestamp() - $1::bigint * interval '1 microsecond'),
	(SELECT count(*) FROM /*schema*/skald_step AS s WHERE s.at < $2::timestamptz AND s.begun < $2::timestamptz AND s.state <> 2 AND NOT EXISTS (
		SELECT FROM /*schema*/skald_parked AS p WHERE p.consumer = s.consumer AND p.source = s.source AND p.id = s.id));

-- name: DeleteTicks
-- Those before the oldest that a lane needs: a lane at the beginning needs the end of its window, which it may not have stored
-- yet. And none of the last hour, which a relay may have in hand.
DELETE FROM /*schema*/skald_tick WHERE id = ANY (ARRAY(
	SELECT id FROM /*schema*/skald_tick
	WHERE at < clock_timestamp() - interval '1 hour' AND id < (
		SELECT min(CASE base WHEN '' THEN 0 ELSE split_part(base, '-', 1)::bigint END) FROM /*schema*/skald_lane)
	ORDER BY id LIMIT 5000));

-- name: Looked
UPDATE /*schema*/skald_maintained SET looked_at = clock_timestamp(),
	keep = CASE name WHEN 'skald_outbox' THEN $1::bigint WHEN 'skald_step' THEN $3::bigint ELSE $2::bigint END * interval '1 microsecond';

-- name: Own
INSERT INTO /*schema*/skald_lease AS l (name, owner, until) VALUES ($1::text, $2::text, clock_timestamp() + $3::bigint * interval '1 microsecond')
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE l.owner = excluded.owner OR l.until <= clock_timestamp()
RETURNING true;

-- name: Disown
DELETE FROM /*schema*/skald_lease WHERE name = $1::text AND owner = $2::text;

-- name: Keeps
-- A view of the contract: an app may read no more.
SELECT coalesce(max(keep_seconds) FILTER (WHERE name = 'skald_outbox'), 0), coalesce(max(keep_seconds) FILTER (WHERE name = 'skald_mark'), 0),
	coalesce(max(keep_seconds) FILTER (WHERE name = 'skald_step'), 0)
FROM /*schema*/skald_maintenance;

-- name: Emptied
UPDATE /*schema*/skald_maintained SET emptied_at = clock_timestamp() WHERE name = $1::text;
