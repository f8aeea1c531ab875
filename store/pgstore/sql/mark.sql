-- name: InsertMark
-- Waits for a rival. An id that was once too far ahead has a timeless mark for ever; $6 says that ours was just made.
INSERT INTO /*schema*/skald_mark_00 (consumer, source, id, outcome, reason, slot)
SELECT $1::text, $2::text, $3::text::uuid, $4::smallint, $5::text, /*slot*/0
WHERE $6::boolean OR NOT EXISTS (
	SELECT FROM /*schema*/skald_mark_timeless AS t WHERE t.consumer = $1::text AND t.source = $2::text AND t.id = $3::text)
ON CONFLICT DO NOTHING;

-- name: TakeMark
-- InsertMark with what Session does: a statement less for each message. CASE, so that the bounds hold whatever is found.
INSERT INTO /*schema*/skald_mark_00 (consumer, source, id, outcome, reason, slot)
SELECT $1::text, $2::text, $3::text::uuid, $4::smallint, $5::text, /*slot*/0
WHERE CASE WHEN set_config('lock_timeout', $7::text, true) IS NOT NULL
		AND set_config('idle_in_transaction_session_timeout', $8::text, true) IS NOT NULL
		AND set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
	THEN $6::boolean OR NOT EXISTS (
		SELECT FROM /*schema*/skald_mark_timeless AS t WHERE t.consumer = $1::text AND t.source = $2::text AND t.id = $3::text) END
ON CONFLICT DO NOTHING;

-- name: GuardMark
-- InsertMark that raises where there is a mark.
WITH i AS (
	INSERT INTO /*schema*/skald_mark_00 (consumer, source, id, outcome, reason, slot)
	SELECT $1::text, $2::text, $3::text::uuid, $4::smallint, $5::text, /*slot*/0
	WHERE $6::boolean OR NOT EXISTS (
		SELECT FROM /*schema*/skald_mark_timeless AS t WHERE t.consumer = $1::text AND t.source = $2::text AND t.id = $3::text)
	ON CONFLICT DO NOTHING
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM i), 'a mark');

-- name: FindMark
-- A statement of its own behind InsertMark, where that hit nothing: only a new snapshot sees the mark of the rival that it waited for.
SELECT outcome, coalesce(reason, '') FROM /*schema*/skald_mark_00 WHERE consumer = $1::text AND source = $2::text AND id = $3::text::uuid
UNION ALL
SELECT outcome, coalesce(reason, '') FROM /*schema*/skald_mark_timeless WHERE consumer = $1::text AND source = $2::text AND id = $3::text
LIMIT 1;

-- name: SeenMarks
-- OFFSET 0 keeps the look-up one probe of the key for each id, whatever the statistics say.
SELECT i.n, m.outcome, m.reason
FROM unnest($2::text[], $3::text[], $4::integer[]) AS i(source, id, n)
CROSS JOIN LATERAL (
	SELECT k.outcome, coalesce(k.reason, '') AS reason FROM /*schema*/skald_mark_00 AS k
	WHERE k.consumer = $1::text AND k.source = i.source AND k.id = i.id::uuid
	UNION ALL
	SELECT t.outcome, coalesce(t.reason, '') FROM /*schema*/skald_mark_timeless AS t
	WHERE t.consumer = $1::text AND t.source = i.source AND t.id = i.id
	OFFSET 0
) AS m;

-- name: InsertTimeless
INSERT INTO /*schema*/skald_mark_timeless (consumer, source, id, outcome, reason)
VALUES ($1::text, $2::text, $3::text, $4::smallint, $5::text)
ON CONFLICT DO NOTHING;

-- name: GuardTimeless
WITH i AS (
	INSERT INTO /*schema*/skald_mark_timeless (consumer, source, id, outcome, reason)
	VALUES ($1::text, $2::text, $3::text, $4::smallint, $5::text)
	ON CONFLICT DO NOTHING
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM i), 'a mark');

-- name: FindTimeless
SELECT outcome, coalesce(reason, '') FROM /*schema*/skald_mark_timeless WHERE consumer = $1::text AND source = $2::text AND id = $3::text;

-- name: SeenTimeless
SELECT i.n, m.outcome, m.reason
FROM unnest($2::text[], $3::text[], $4::integer[]) AS i(source, id, n)
CROSS JOIN LATERAL (
	SELECT t.outcome, coalesce(t.reason, '') AS reason FROM /*schema*/skald_mark_timeless AS t
	WHERE t.consumer = $1::text AND t.source = i.source AND t.id = i.id
	OFFSET 0
) AS m;
