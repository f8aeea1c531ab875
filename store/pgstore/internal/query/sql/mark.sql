-- name: InsertMark
-- Waits for a rival. "arrived" is when the mark was stored by the server's clock, or the time in its ID ($7, in milliseconds; 0 if it has
-- none) if that is later. "known": the snapshot has neither a floor above the ID nor its mark. A look in the index alone is not enough,
-- because it shows the present. The retention may have deleted the mark after this snapshot, which does not have the new floor yet.
INSERT INTO /*schema*/skald_mark (consumer, source, id, outcome, reason, fingerprint, at, until)
SELECT $1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint, /*arrived*/, clock_timestamp() + $9::bigint * interval '1 microsecond'
WHERE /*known*/
ON CONFLICT DO NOTHING;

-- name: TakeMark
-- InsertMark with the work of Session: one statement less for each message. CASE applies the timeouts in any case.
INSERT INTO /*schema*/skald_mark (consumer, source, id, outcome, reason, fingerprint, at, until)
SELECT $1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint, /*arrived*/, clock_timestamp() + $9::bigint * interval '1 microsecond'
WHERE CASE WHEN set_config('skald.lent', 'yes', true) IS NOT NULL AND set_config('lock_timeout', $10::text, true) IS NOT NULL
		AND set_config('idle_in_transaction_session_timeout', $11::text, true) IS NOT NULL
		AND set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
	THEN /*known*/ END
ON CONFLICT DO NOTHING;

-- name: InsertArriving
-- InsertMark after TakeArrive. It inserts no mark for a message that is parked or must wait for one, and then resets the planner's
-- settings. CASE does this in any case.
INSERT INTO /*schema*/skald_mark (consumer, source, id, outcome, reason, fingerprint, at)
SELECT $1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint, /*arrived*/
WHERE CASE WHEN set_config('enable_seqscan', current_setting('skald.seqscan'), true) IS NOT NULL
	THEN NOT EXISTS (SELECT FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.source = $2::text AND p.id = $3::text)
		AND NOT EXISTS (SELECT FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.key = $9::bytea AND p.blocks_key AND NOT p.waiting)
		AND /*known*/ END
ON CONFLICT DO NOTHING;

-- name: InsertClaimed
-- InsertArriving for a claimed message. It inserts no mark unless the message has the same attempts ($10) and is the first of its key.
INSERT INTO /*schema*/skald_mark (consumer, source, id, outcome, reason, fingerprint, at)
SELECT $1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint, /*arrived*/
WHERE CASE WHEN set_config('enable_seqscan', current_setting('skald.seqscan'), true) IS NOT NULL
	THEN EXISTS (SELECT FROM /*schema*/skald_parked AS p
			WHERE p.consumer = $1::text AND p.source = $2::text AND p.id = $3::text AND p.attempts = $10::integer AND p.dead_at IS NULL
				AND p.place = coalesce((SELECT f.place FROM /*schema*/skald_parked AS f
					WHERE f.consumer = $1::text AND f.key = $9::bytea AND f.blocks_key ORDER BY f.place LIMIT 1), p.place))
		AND /*known*/ END
ON CONFLICT DO NOTHING;

-- name: ExpireMark
-- After an InsertMark that inserted nothing, and before the next try: deletes a mark whose Keep is over.
SELECT /*schema*/skald_expire($1::text, $2::text, $3::text);

-- name: BelowFloor
-- For an ID with a timestamp.
SELECT true FROM /*schema*/skald_floor AS f WHERE f.consumer = $1::text AND f.at >= to_timestamp($2::bigint / 1000.0);

-- name: GuardMark
-- InsertMark that fails if there is a mark.
WITH i AS (
	INSERT INTO /*schema*/skald_mark (consumer, source, id, outcome, reason, fingerprint, at, until)
	SELECT $1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint, /*arrived*/, clock_timestamp() + $9::bigint * interval '1 microsecond'
	WHERE /*known*/
	ON CONFLICT DO NOTHING
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM i), 'a mark');

-- name: FindMark
-- A separate statement after an InsertMark without a row: only a new snapshot has the mark of the rival that it waited for.
SELECT coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(m.fingerprint, 0), coalesce(a.code, 0), a.result, coalesce(a.emitted, ''), coalesce(a.headers, ''), (extract(epoch FROM m.until - clock_timestamp()) * 1000000)::bigint
FROM /*schema*/skald_mark AS m LEFT JOIN /*schema*/skald_answer AS a ON a.arrival = m.arrival
WHERE m.consumer = $1::text AND m.source = $2::text AND m.id = $3::text;

-- name: SeenMarks
-- OFFSET 0 makes each look-up one probe of the index, for any statistics.
SELECT i.n, coalesce(m.until <= clock_timestamp(), false), coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(m.fingerprint, 0), coalesce(a.code, 0), a.result, coalesce(a.emitted, ''), coalesce(a.headers, ''), (extract(epoch FROM m.until - clock_timestamp()) * 1000000)::bigint
FROM unnest($2::text[], $3::text[], $4::integer[]) AS i(source, id, n)
CROSS JOIN LATERAL (
	SELECT k.outcome, k.reason, k.fingerprint, k.arrival, k.until FROM /*schema*/skald_mark AS k
	WHERE k.consumer = $1::text AND k.source = i.source AND k.id = i.id
	OFFSET 0
) AS m LEFT JOIN LATERAL (SELECT * FROM /*schema*/skald_answer AS k WHERE k.arrival = m.arrival OFFSET 0) AS a ON true;

-- name: AnswerMark
WITH i AS (
	INSERT INTO /*schema*/skald_answer (arrival, outcome, reason, code, result, emitted, headers)
	SELECT m.arrival, $4::smallint, $5::text, $6::integer, $7::bytea, $8::text, $9::text FROM /*schema*/skald_mark AS m
	WHERE m.consumer = $1::text AND m.source = $2::text AND m.id = $3::text AND m.outcome IN (1, $4::smallint)
	ON CONFLICT DO NOTHING
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM i), 'an answer');

-- name: InsertMarks
-- InsertMark for many, in their order. Messages that FindKeyOrders returned get none. Scalar subqueries stay probes of the index, for any
-- statistics.
INSERT INTO /*schema*/skald_mark (consumer, source, id, outcome, reason, fingerprint, at)
SELECT $1::text, i.source, i.id, i.outcome, i.reason, i.fingerprint, /*arrived*/
FROM unnest($2::text[], $3::text[], $4::smallint[], $5::text[], $6::bigint[], $7::integer[], $8::bigint[], $9::boolean[])
	AS i(source, id, outcome, reason, fingerprint, n, written, held)
WHERE i.n <> ALL ((SELECT concat('{', ltrim(current_setting('skald.kept'), ','), '}'))::integer[])
	AND /*known*/
ON CONFLICT DO NOTHING
RETURNING source, id;
