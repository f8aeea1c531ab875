-- name: InsertMark
-- Waits for a rival. An id that was once too far ahead has a timeless mark for ever; $7 says that ours was just made.
INSERT INTO /*schema*/skald_mark_00 (consumer, source, id, outcome, reason, fingerprint, slot)
SELECT $1::text, $2::text, $3::text::uuid, $4::smallint, $5::text, $6::bigint, /*slot*/0
WHERE ($7::boolean OR NOT EXISTS (
	SELECT FROM /*schema*/skald_mark_timeless AS t WHERE t.consumer = $1::text AND t.source = $2::text AND t.id = $3::text))/*floor*/
ON CONFLICT DO NOTHING;

-- name: TakeMark
-- InsertMark with what Session does: a statement less for each message. CASE, so that the bounds hold whatever is found.
INSERT INTO /*schema*/skald_mark_00 (consumer, source, id, outcome, reason, fingerprint, slot)
SELECT $1::text, $2::text, $3::text::uuid, $4::smallint, $5::text, $6::bigint, /*slot*/0
WHERE CASE WHEN set_config('lock_timeout', $8::text, true) IS NOT NULL
		AND set_config('idle_in_transaction_session_timeout', $9::text, true) IS NOT NULL
		AND set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
	THEN $7::boolean OR NOT EXISTS (
		SELECT FROM /*schema*/skald_mark_timeless AS t WHERE t.consumer = $1::text AND t.source = $2::text AND t.id = $3::text) END
ON CONFLICT DO NOTHING;

-- name: InsertArriving
-- InsertMark behind TakeArrive: none for a message that is kept, or comes behind one of its key that is; and the planner is told what it was
-- told before. CASE, so that this is done whatever is found.
INSERT INTO /*schema*/skald_mark_00 (consumer, source, id, outcome, reason, fingerprint, slot)
SELECT $1::text, $2::text, $3::text::uuid, $4::smallint, $5::text, $6::bigint, /*slot*/0
WHERE CASE WHEN set_config('enable_seqscan', current_setting('skald.seqscan'), true) IS NOT NULL
	THEN NOT EXISTS (SELECT FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.source = $2::text AND p.id = $3::text)
		AND NOT EXISTS (SELECT FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.key = $7::bytea AND p.holds AND NOT p.waiting)
		AND NOT EXISTS (SELECT FROM /*schema*/skald_mark_timeless AS t WHERE t.consumer = $1::text AND t.source = $2::text AND t.id = $3::text) END/*floor*/
ON CONFLICT DO NOTHING;

-- name: InsertClaimed
-- InsertArriving for a message that was claimed: none unless it is as it was then ($8), and the first of its key.
INSERT INTO /*schema*/skald_mark_00 (consumer, source, id, outcome, reason, fingerprint, slot)
SELECT $1::text, $2::text, $3::text::uuid, $4::smallint, $5::text, $6::bigint, /*slot*/0
WHERE CASE WHEN set_config('enable_seqscan', current_setting('skald.seqscan'), true) IS NOT NULL
	THEN EXISTS (SELECT FROM /*schema*/skald_parked AS p
			WHERE p.consumer = $1::text AND p.source = $2::text AND p.id = $3::text AND p.attempts = $8::integer AND p.dead_at IS NULL
				AND p.place = coalesce((SELECT f.place FROM /*schema*/skald_parked AS f
					WHERE f.consumer = $1::text AND f.key = $7::bytea AND f.holds ORDER BY f.place LIMIT 1), p.place))
		AND NOT EXISTS (SELECT FROM /*schema*/skald_mark_timeless AS t WHERE t.consumer = $1::text AND t.source = $2::text AND t.id = $3::text) END
ON CONFLICT DO NOTHING;

-- name: BelowFloor
SELECT true FROM /*schema*/skald_floor AS f WHERE f.consumer = $1::text AND f.at > to_timestamp($2::bigint / 1000.0);

-- name: GuardMark
-- InsertMark that raises where there is a mark.
WITH i AS (
	INSERT INTO /*schema*/skald_mark_00 (consumer, source, id, outcome, reason, fingerprint, slot)
	SELECT $1::text, $2::text, $3::text::uuid, $4::smallint, $5::text, $6::bigint, /*slot*/0
	WHERE ($7::boolean OR NOT EXISTS (
		SELECT FROM /*schema*/skald_mark_timeless AS t WHERE t.consumer = $1::text AND t.source = $2::text AND t.id = $3::text))/*floor*/
	ON CONFLICT DO NOTHING
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM i), 'a mark');

-- name: FindMark
-- A statement of its own behind InsertMark, where that hit nothing: only a new snapshot sees the mark of the rival that it waited for.
SELECT coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(m.fingerprint, 0), coalesce(a.code, 0), a.result, coalesce(a.said, '')
FROM /*schema*/skald_mark_00 AS m LEFT JOIN /*schema*/skald_answer AS a ON a.arrival = m.arrival
WHERE m.consumer = $1::text AND m.source = $2::text AND m.id = $3::text::uuid
UNION ALL
SELECT coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(m.fingerprint, 0), coalesce(a.code, 0), a.result, coalesce(a.said, '')
FROM /*schema*/skald_mark_timeless AS m LEFT JOIN /*schema*/skald_answer AS a ON a.arrival = m.arrival
WHERE m.consumer = $1::text AND m.source = $2::text AND m.id = $3::text
LIMIT 1;

-- name: SeenMarks
-- OFFSET 0 keeps the look-up one probe of the key for each id, whatever the statistics say.
SELECT i.n, coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(m.fingerprint, 0), coalesce(a.code, 0), a.result, coalesce(a.said, '')
FROM unnest($2::text[], $3::text[], $4::integer[]) AS i(source, id, n)
CROSS JOIN LATERAL (
	SELECT k.outcome, k.reason, k.fingerprint, k.arrival FROM /*schema*/skald_mark_00 AS k
	WHERE k.consumer = $1::text AND k.source = i.source AND k.id = i.id::uuid
	UNION ALL
	SELECT t.outcome, t.reason, t.fingerprint, t.arrival FROM /*schema*/skald_mark_timeless AS t
	WHERE t.consumer = $1::text AND t.source = i.source AND t.id = i.id
	OFFSET 0
) AS m LEFT JOIN LATERAL (SELECT * FROM /*schema*/skald_answer AS k WHERE k.arrival = m.arrival OFFSET 0) AS a ON true;

-- name: AnswerMark
WITH i AS (
	INSERT INTO /*schema*/skald_answer (arrival, outcome, reason, code, result, said)
	SELECT m.arrival, $4::smallint, $5::text, $6::integer, $7::bytea, $8::text FROM /*schema*/skald_mark_00 AS m
	WHERE m.consumer = $1::text AND m.source = $2::text AND m.id = $3::text::uuid AND m.outcome IN (1, $4::smallint)
	ON CONFLICT DO NOTHING
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM i), 'an answer');

-- name: InsertTimeless
INSERT INTO /*schema*/skald_mark_timeless (consumer, source, id, outcome, reason, fingerprint)
VALUES ($1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint)
ON CONFLICT DO NOTHING;

-- name: InsertArrivingTimeless
INSERT INTO /*schema*/skald_mark_timeless (consumer, source, id, outcome, reason, fingerprint)
SELECT $1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint
WHERE CASE WHEN set_config('enable_seqscan', current_setting('skald.seqscan'), true) IS NOT NULL
	THEN NOT EXISTS (SELECT FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.source = $2::text AND p.id = $3::text)
		AND NOT EXISTS (SELECT FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.key = $7::bytea AND p.holds AND NOT p.waiting) END
ON CONFLICT DO NOTHING;

-- name: InsertClaimedTimeless
INSERT INTO /*schema*/skald_mark_timeless (consumer, source, id, outcome, reason, fingerprint)
SELECT $1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint
WHERE CASE WHEN set_config('enable_seqscan', current_setting('skald.seqscan'), true) IS NOT NULL
	THEN EXISTS (SELECT FROM /*schema*/skald_parked AS p
		WHERE p.consumer = $1::text AND p.source = $2::text AND p.id = $3::text AND p.attempts = $8::integer AND p.dead_at IS NULL
			AND p.place = coalesce((SELECT f.place FROM /*schema*/skald_parked AS f
				WHERE f.consumer = $1::text AND f.key = $7::bytea AND f.holds ORDER BY f.place LIMIT 1), p.place)) END
ON CONFLICT DO NOTHING;

-- name: GuardTimeless
WITH i AS (
	INSERT INTO /*schema*/skald_mark_timeless (consumer, source, id, outcome, reason, fingerprint)
	VALUES ($1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint)
	ON CONFLICT DO NOTHING
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM i), 'a mark');

-- name: FindTimeless
SELECT coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(m.fingerprint, 0), coalesce(a.code, 0), a.result, coalesce(a.said, '')
FROM /*schema*/skald_mark_timeless AS m LEFT JOIN /*schema*/skald_answer AS a ON a.arrival = m.arrival
WHERE m.consumer = $1::text AND m.source = $2::text AND m.id = $3::text;

-- name: SeenTimeless
SELECT i.n, coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(m.fingerprint, 0), coalesce(a.code, 0), a.result, coalesce(a.said, '')
FROM unnest($2::text[], $3::text[], $4::integer[]) AS i(source, id, n)
CROSS JOIN LATERAL (
	SELECT t.outcome, t.reason, t.fingerprint, t.arrival FROM /*schema*/skald_mark_timeless AS t
	WHERE t.consumer = $1::text AND t.source = i.source AND t.id = i.id
	OFFSET 0
) AS m LEFT JOIN LATERAL (SELECT * FROM /*schema*/skald_answer AS k WHERE k.arrival = m.arrival OFFSET 0) AS a ON true;

-- name: AnswerTimeless
WITH i AS (
	INSERT INTO /*schema*/skald_answer (arrival, outcome, reason, code, result, said)
	SELECT m.arrival, $4::smallint, $5::text, $6::integer, $7::bytea, $8::text FROM /*schema*/skald_mark_timeless AS m
	WHERE m.consumer = $1::text AND m.source = $2::text AND m.id = $3::text AND m.outcome IN (1, $4::smallint)
	ON CONFLICT DO NOTHING
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM i), 'an answer');

-- name: Secret
SELECT value FROM /*schema*/skald_setting WHERE name = 'fingerprint key';

-- name: InsertMarks
-- InsertMark for many, in their order. Those that FindTurns told get none. Scalar subqueries stay probes of a key, whatever the
-- statistics say; the one with LIMIT is asked once for all, and spares the other where a consumer has nothing timeless.
INSERT INTO /*schema*/skald_mark_00 (consumer, source, id, outcome, reason, fingerprint, slot)
SELECT $1::text, i.source, i.id::uuid, i.outcome, i.reason, i.fingerprint, /*slot*/0
FROM unnest($2::text[], $3::text[], $4::smallint[], $5::text[], $6::bigint[], $7::integer[], $8::boolean[], $9::bigint[])
	AS i(source, id, outcome, reason, fingerprint, n, twice, old)
WHERE i.n <> ALL ((SELECT concat('{', ltrim(current_setting('skald.kept'), ','), '}'))::integer[])
	AND (i.twice OR (SELECT t.arrival FROM /*schema*/skald_mark_timeless AS t WHERE t.consumer = $1::text LIMIT 1) IS NULL
		OR (SELECT t.arrival FROM /*schema*/skald_mark_timeless AS t WHERE t.consumer = $1::text AND t.source = i.source AND t.id = i.id) IS NULL)
	AND (i.old = 0 OR (SELECT f.at FROM /*schema*/skald_floor AS f WHERE f.consumer = $1::text AND f.at > to_timestamp(i.old / 1000.0)) IS NULL)
ON CONFLICT DO NOTHING
RETURNING source, id::text;

-- name: InsertManyTimeless
INSERT INTO /*schema*/skald_mark_timeless (consumer, source, id, outcome, reason, fingerprint)
SELECT $1::text, i.source, i.id, i.outcome, i.reason, i.fingerprint
FROM unnest($2::text[], $3::text[], $4::smallint[], $5::text[], $6::bigint[], $7::integer[], $8::boolean[], $9::bigint[])
	AS i(source, id, outcome, reason, fingerprint, n, twice, old)
WHERE i.n <> ALL ((SELECT concat('{', ltrim(current_setting('skald.kept'), ','), '}'))::integer[])
ON CONFLICT DO NOTHING
RETURNING source, id;
