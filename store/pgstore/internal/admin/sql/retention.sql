-- name: Now
SELECT floor(extract(epoch FROM clock_timestamp()))::bigint;

-- name: RowsIn
SELECT EXISTS (SELECT FROM /*schema*/skald_outbox_0);

-- name: LockRows
-- Runs before the check of the rows, so that the check includes rows that commit during the wait for this lock.
LOCK TABLE /*schema*/skald_outbox_0 IN ACCESS EXCLUSIVE MODE;

-- name: Covered
-- Reports whether all shards have passed the rows of a leaf. A shard has passed the rows that its base includes. If the base is empty or
-- missing, the shard has passed no rows.
SELECT NOT EXISTS (SELECT FROM /*schema*/skald_outbox_0) OR NOT EXISTS (
	SELECT FROM /*schema*/skald_shard AS l LEFT JOIN /*schema*/skald_snapshot AS t
		ON l.base <> '' AND t.id = nullif(split_part(l.base, '-', 1), '')::bigint AND t.token = split_part(l.base, '-', 2)
	WHERE t.id IS NULL OR EXISTS (
		SELECT FROM /*schema*/skald_outbox_0 AS o
		WHERE o.txid >= pg_snapshot_xmin(t.snapshot) AND NOT pg_visible_in_snapshot(o.txid, t.snapshot)));

-- name: CountRows
SELECT count(*) FROM /*schema*/skald_outbox_0;

-- name: EmptyRows
TRUNCATE /*schema*/skald_outbox_0;

-- name: DeleteQuarantine
-- Deletes only messages that were handled after an operator admitted them. The others wait for an operator.
DELETE FROM /*schema*/skald_quarantine WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM /*schema*/skald_quarantine WHERE taken_at < clock_timestamp() - $1::bigint * interval '1 microsecond'
	LIMIT 5000 FOR UPDATE SKIP LOCKED));

-- name: DeleteMarks
-- Deletes expired marks with their answers. It raises the floor of the consumer in the same transaction, so that each snapshot has the mark or
-- the floor. It also deletes marks with their own Keep after that time. It never deletes marks of the last $2 microseconds, because no floor may
-- be there. The clock is read once, because a condition with a clock for each row could not end the walk of the index, and each run would read
-- all marks.
WITH d AS (
	DELETE FROM /*schema*/skald_mark WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM /*schema*/skald_mark WHERE at < (SELECT clock_timestamp()) - $1::bigint * interval '1 microsecond'
			AND (until IS NULL OR until <= (SELECT clock_timestamp()))
		ORDER BY at LIMIT 5000 FOR UPDATE SKIP LOCKED)
	|| ARRAY(
		SELECT ctid FROM /*schema*/skald_mark WHERE until <= (SELECT clock_timestamp())
			AND at < (SELECT clock_timestamp()) - $2::bigint * interval '1 microsecond'
		ORDER BY until LIMIT 5000 FOR UPDATE SKIP LOCKED))
	RETURNING consumer, at, arrival
), a AS (
	DELETE FROM /*schema*/skald_answer WHERE arrival = ANY (ARRAY(SELECT arrival FROM d))
), f AS (
	INSERT INTO /*schema*/skald_floor AS f (consumer, at) SELECT consumer, max(at) FROM d GROUP BY consumer ORDER BY consumer
	ON CONFLICT (consumer) DO UPDATE SET at = greatest(f.at, EXCLUDED.at)
)
SELECT count(*) FROM d;

-- name: DeleteSagas
-- Deletes ended sagas, so that new sagas can use their keys. It keeps a child until its parent has ended, because the parent may still undo the
-- child.
DELETE FROM /*schema*/skald_saga WHERE ctid = ANY (ARRAY(
	SELECT s.ctid FROM /*schema*/skald_saga AS s WHERE s.ended_at < (SELECT clock_timestamp()) - $1::bigint * interval '1 microsecond' AND NOT EXISTS (
		SELECT FROM (SELECT CASE WHEN strpos(s.origin, '"parent"') > 0 THEN s.origin::jsonb -> 'parent' END AS up) AS o
		JOIN /*schema*/skald_saga AS p ON p.name = (o.up ->> 'name') COLLATE "C" AND p.key = (o.up ->> 'key') COLLATE "C"
		WHERE p.id = (o.up ->> 'id') COLLATE "C" AND p.ended_at IS NULL)
	ORDER BY s.ended_at LIMIT 5000 FOR UPDATE OF s SKIP LOCKED));

-- name: CountRest
-- Counts the rows that DeleteMarks, ForgetSteps and DeleteSagas would delete.
SELECT (SELECT count(*) FROM /*schema*/skald_mark WHERE at < clock_timestamp() - $1::bigint * interval '1 microsecond'
		AND (until IS NULL OR until <= clock_timestamp()))
	+ (SELECT count(*) FROM /*schema*/skald_mark WHERE until <= clock_timestamp() AND at < clock_timestamp() - $4::bigint * interval '1 microsecond'
		AND at >= clock_timestamp() - $1::bigint * interval '1 microsecond'),
	(SELECT count(*) FROM /*schema*/skald_step AS s WHERE s.at < $2::timestamptz AND s.begun < $2::timestamptz AND s.state <> 2 AND NOT EXISTS (
		SELECT FROM /*schema*/skald_parked AS p WHERE p.consumer = s.consumer AND p.source = s.source AND p.id = s.id)),
	(SELECT count(*) FROM /*schema*/skald_saga AS s WHERE s.ended_at < clock_timestamp() - $3::bigint * interval '1 microsecond' AND NOT EXISTS (
		SELECT FROM (SELECT CASE WHEN strpos(s.origin, '"parent"') > 0 THEN s.origin::jsonb -> 'parent' END AS up) AS o
		JOIN /*schema*/skald_saga AS p ON p.name = (o.up ->> 'name') COLLATE "C" AND p.key = (o.up ->> 'key') COLLATE "C"
		WHERE p.id = (o.up ->> 'id') COLLATE "C" AND p.ended_at IS NULL));

-- name: DeleteSnapshots
-- Deletes snapshots that are older than those that the shards need. A shard at the beginning needs the end of its window, which it may not have
-- stored yet. It keeps snapshots of the last hour, because a relay may still use them.
DELETE FROM /*schema*/skald_snapshot WHERE id = ANY (ARRAY(
	SELECT id FROM /*schema*/skald_snapshot
	WHERE at < clock_timestamp() - interval '1 hour' AND id < (
		SELECT min(CASE base WHEN '' THEN 0 ELSE split_part(base, '-', 1)::bigint END) FROM /*schema*/skald_shard)
	ORDER BY id LIMIT 5000));

-- name: Looked
UPDATE /*schema*/skald_retention_run SET ran_at = clock_timestamp(),
	keep = CASE name WHEN 'skald_outbox' THEN $1::bigint WHEN 'skald_step' THEN $3::bigint WHEN 'skald_saga' THEN $4::bigint ELSE $2::bigint END * interval '1 microsecond';

-- name: Own
INSERT INTO /*schema*/skald_lease AS l (name, owner, until) VALUES ($1::text, $2::text, clock_timestamp() + $3::bigint * interval '1 microsecond')
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE l.owner = excluded.owner OR l.until <= clock_timestamp()
RETURNING true;

-- name: Disown
DELETE FROM /*schema*/skald_lease WHERE name = $1::text AND owner = $2::text;

-- name: Keeps
-- Reads a public view, because the role of an app may read no other table.
SELECT coalesce(max(keep_seconds) FILTER (WHERE name = 'skald_outbox'), 0), coalesce(max(keep_seconds) FILTER (WHERE name = 'skald_mark'), 0),
	coalesce(max(keep_seconds) FILTER (WHERE name = 'skald_step'), 0), coalesce(max(keep_seconds) FILTER (WHERE name = 'skald_saga'), 0)
FROM /*schema*/skald_retention;

-- name: Emptied
UPDATE /*schema*/skald_retention_run SET removed_at = clock_timestamp() WHERE name = $1::text;

-- name: ForgetSteps
-- Deletes expired steps; the next run deletes those that are locked now. It keeps a step if its call is in progress, if its message is parked or
-- dead, or if the begin of its saga is unknown.
WITH d AS (
	DELETE FROM /*schema*/skald_step WHERE ctid = ANY (ARRAY(
		SELECT s.ctid FROM /*schema*/skald_step AS s
		WHERE s.at < $1::timestamptz AND s.begun < $1::timestamptz
			AND s.state <> 2 AND NOT EXISTS (
				SELECT FROM /*schema*/skald_parked AS p WHERE p.consumer = s.consumer AND p.source = s.source AND p.id = s.id)
		ORDER BY s.at LIMIT 5000 FOR UPDATE OF s SKIP LOCKED))
	RETURNING consumer, step
), f AS (
	INSERT INTO /*schema*/skald_step_floor AS f (consumer, step, at)
	SELECT DISTINCT d.consumer, d.step, $1::timestamptz FROM d ORDER BY 1, 2
	ON CONFLICT (consumer, step) DO UPDATE SET at = greatest(f.at, EXCLUDED.at)
)
SELECT count(*) FROM d;
