-- name: InsertMark
-- Inserts a mark, and none if it exists or the message is too old. If a rival is inserting the same mark, it waits. "arrived" is the present
-- time of the server, or the time in the ID if that is later ($7, in milliseconds; 0 without a time). "known" is true if the snapshot has
-- neither a floor above the ID nor its mark. ON CONFLICT alone is not enough, because it sees the present and not the snapshot: retention may
-- have deleted the mark after this snapshot, and the snapshot does not have the new floor yet.
INSERT INTO /*schema*/skald_mark (consumer, source, id, outcome, reason, fingerprint, at, until)
SELECT $1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint, /*arrived*/, clock_timestamp() + $9::bigint * interval '1 microsecond'
WHERE /*known*/
ON CONFLICT DO NOTHING;

-- name: TakeMark
-- Does as InsertMark and Session together, which saves a statement for each message. CASE sets the timeouts even if no mark is inserted.
INSERT INTO /*schema*/skald_mark (consumer, source, id, outcome, reason, fingerprint, at, until)
SELECT $1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint, /*arrived*/, clock_timestamp() + $9::bigint * interval '1 microsecond'
WHERE CASE WHEN set_config('skald.lent', 'yes', true) IS NOT NULL AND set_config('lock_timeout', $10::text, true) IS NOT NULL
		AND set_config('idle_in_transaction_session_timeout', $11::text, true) IS NOT NULL
		AND set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
	THEN /*known*/ END
ON CONFLICT DO NOTHING;

-- name: InsertArriving
-- Does as InsertMark after TakeArrive. It inserts no mark for a message that is parked or must wait for a parked message. CASE resets the
-- planner settings of TakeArrive in both cases.
INSERT INTO /*schema*/skald_mark (consumer, source, id, outcome, reason, fingerprint, at)
SELECT $1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint, /*arrived*/
WHERE CASE WHEN set_config('enable_seqscan', current_setting('skald.seqscan'), true) IS NOT NULL
	THEN NOT EXISTS (SELECT FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.source = $2::text AND p.id = $3::text)
		AND NOT EXISTS (SELECT FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.key = $9::bytea AND p.blocks_key AND NOT p.waiting)
		AND /*known*/ END
ON CONFLICT DO NOTHING;

-- name: InsertClaimed
-- Does as InsertArriving for a claimed message. It inserts a mark only if the message still has $10 attempts and is the first of its key.
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
-- Deletes an expired mark. It runs after an InsertMark that inserted nothing, before the next InsertMark.
SELECT /*schema*/skald_expire($1::text, $2::text, $3::text);

-- name: BelowFloor
-- Reports whether an ID with a timestamp is too old: retention may have deleted its mark.
SELECT true FROM /*schema*/skald_floor AS f WHERE f.consumer = $1::text AND f.at >= to_timestamp($2::bigint / 1000.0);

-- name: GuardMark
-- Does as InsertMark, and fails if the mark exists.
WITH i AS (
	INSERT INTO /*schema*/skald_mark (consumer, source, id, outcome, reason, fingerprint, at, until)
	SELECT $1::text, $2::text, $3::text, $4::smallint, $5::text, $6::bigint, /*arrived*/, clock_timestamp() + $9::bigint * interval '1 microsecond'
	WHERE /*known*/
	ON CONFLICT DO NOTHING
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM i), 'a mark');

-- name: FindMark
-- Reads a mark after an InsertMark that inserted nothing. It is a separate statement, because only a new snapshot has the mark of the rival that
-- InsertMark waited for.
SELECT coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(m.fingerprint, 0), coalesce(a.code, 0), a.result, coalesce(a.emitted, ''), coalesce(a.headers, ''), (extract(epoch FROM m.until - clock_timestamp()) * 1000000)::bigint
FROM /*schema*/skald_mark AS m LEFT JOIN /*schema*/skald_answer AS a ON a.arrival = m.arrival
WHERE m.consumer = $1::text AND m.source = $2::text AND m.id = $3::text;

-- name: SeenMarks
-- Reads the marks of many messages. OFFSET 0 makes each look-up one probe of the index, whatever the statistics are.
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
-- Does as InsertMark for many messages, in the order of the arrays. It inserts no marks for messages that FindKeyOrders returned. The scalar
-- subqueries are probes of the index, whatever the statistics are.
INSERT INTO /*schema*/skald_mark (consumer, source, id, outcome, reason, fingerprint, at)
SELECT $1::text, i.source, i.id, i.outcome, i.reason, i.fingerprint, /*arrived*/
FROM unnest($2::text[], $3::text[], $4::smallint[], $5::text[], $6::bigint[], $7::integer[], $8::bigint[], $9::boolean[])
	AS i(source, id, outcome, reason, fingerprint, n, written, held)
WHERE i.n <> ALL ((SELECT concat('{', ltrim(current_setting('skald.kept'), ','), '}'))::integer[])
	AND /*known*/
ON CONFLICT DO NOTHING
RETURNING source, id;
