-- name: KeyOrder
SELECT /*schema*/skald_check_key_order($1::bigint, $2::text, $3::text, $4::text, $5::bytea, $6::integer);

-- name: TakeKeyOrder
-- Does as Session and KeyOrder together, which saves a statement for each message.
SELECT CASE WHEN coalesce($9::timestamptz <> pg_postmaster_start_time(), false) AND /*schema*/skald_require(false, 'the server') THEN 0::smallint
	WHEN set_config('skald.lent', 'yes', true) IS NOT NULL AND set_config('lock_timeout', $7::text, true) IS NOT NULL
		AND set_config('idle_in_transaction_session_timeout', $8::text, true) IS NOT NULL
		AND set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
	THEN /*schema*/skald_check_key_order($1::bigint, $2::text, $3::text, $4::text, $5::bytea, $6::integer) END;

-- name: TakeArrive
-- Does as Session, and locks a key for InsertArriving. InsertArriving is a separate statement, so that its snapshot is later than the lock. The
-- settings give InsertArriving a plan without full scans: see Walk.
SELECT CASE WHEN coalesce($4::timestamptz <> pg_postmaster_start_time(), false) AND /*schema*/skald_require(false, 'the server') THEN NULL
	WHEN set_config('skald.lent', 'yes', true) IS NOT NULL AND set_config('lock_timeout', $2::text, true) IS NOT NULL
		AND set_config('idle_in_transaction_session_timeout', $3::text, true) IS NOT NULL
		AND set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
		AND pg_advisory_xact_lock($1::bigint) IS NOT NULL AND set_config('skald.seqscan', current_setting('enable_seqscan'), true) IS NOT NULL
	THEN set_config('enable_seqscan', 'off', true) END;

-- name: FollowArrive
-- Does as TakeArrive, but fails instead of waiting for the key. It shares a round trip with the COMMIT of another message, and the result of
-- that COMMIT must not wait for a rival of this message.
SELECT CASE WHEN coalesce($4::timestamptz <> pg_postmaster_start_time(), false) AND /*schema*/skald_require(false, 'the server') THEN NULL
	WHEN set_config('skald.lent', 'yes', true) IS NOT NULL AND set_config('lock_timeout', $2::text, true) IS NOT NULL
		AND set_config('idle_in_transaction_session_timeout', $3::text, true) IS NOT NULL
		AND set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
		AND CASE WHEN pg_try_advisory_xact_lock($1::bigint) THEN true ELSE /*schema*/skald_require(false, 'a free key') END
		AND set_config('skald.seqscan', current_setting('enable_seqscan'), true) IS NOT NULL
	THEN set_config('enable_seqscan', 'off', true) END;

-- name: FollowKeyOrder
-- Locks the key before TakeKeyOrder, or fails instead of waiting, as FollowArrive does.
SELECT CASE WHEN pg_try_advisory_xact_lock($1::bigint) THEN true ELSE /*schema*/skald_require(false, 'a free key') END;

-- name: GuardKeyOrder
SELECT /*schema*/skald_require(/*schema*/skald_check_key_order($1::bigint, $2::text, $3::text, $4::text, $5::bytea, $6::integer) = 0, 'the order of a key');

-- name: LockKeyOrder
SELECT pg_advisory_xact_lock($1::bigint) IS NULL;

-- name: LockParked
-- Locks the key of a parked message or dead letter. It is a separate statement, so that the snapshot of the next statement is later than the
-- lock.
SELECT pg_advisory_xact_lock((SELECT key_lock FROM /*schema*/skald_parked WHERE consumer = $1::text AND source = $2::text AND id = $3::text)) IS NULL;

-- name: NoMark
SELECT /*schema*/skald_require(NOT EXISTS (
	SELECT FROM /*schema*/skald_mark WHERE consumer = $1::text AND source = $2::text AND id = $3::text), 'no mark');

-- name: InsertParked
-- Parks a message, within the limits of its key. f and l are the first and the last message that block the key. The difference of their running
-- numbers is the count of messages between them. A dead letter that blocks its key again has an older number and counts as at least one.
WITH f AS (
	SELECT running_count, running_bytes, bytes FROM /*schema*/skald_parked WHERE consumer = $1::text AND key = $18::bytea AND blocks_key ORDER BY place LIMIT 1
), l AS (
	SELECT running_count, running_bytes FROM /*schema*/skald_parked WHERE consumer = $1::text AND key = $18::bytea AND blocks_key ORDER BY place DESC LIMIT 1
), i AS (
	INSERT INTO /*schema*/skald_parked (consumer, source, id, attempts, due, blocks_key, first_at, first_error, first_host, last_at, last_error, last_host,
		dead_at, kind, fingerprint, stack, version, key, topic, type, data, envelope, bytes, partition, position, fault, key_lock, call, waiting, running_count, running_bytes,
		claims, crash_count, claimed_by, failures)
	SELECT $1::text, $2::text, $3::text, $4::integer, clock_timestamp() + $5::bigint * interval '1 microsecond', $6::boolean,
		$7::timestamptz, $8::text, $9::text, $10::timestamptz, $11::text, $12::text, $13::timestamptz, $14::text, $15::text, $16::text, $17::text,
		$18::bytea, $19::text, $20::text, $21::bytea, $22::bytea, $23::bigint, $24::text, $25::bigint, $26::text, $27::bigint,
		CASE WHEN $30::text LIKE '{"since":null,%' THEN '{"since":' || to_json(clock_timestamp())::text || substr($30::text, 14) ELSE $30::text END,
		$6::boolean AND EXISTS (SELECT FROM f), coalesce((SELECT running_count FROM l), 0) + 1, coalesce((SELECT running_bytes FROM l), 0) + $23::bigint,
		$31::integer, $32::integer, $33::text, $34::text
	WHERE ($28::bigint = 0 OR coalesce((SELECT greatest(l.running_count - f.running_count + 1, 1) FROM f, l), 0) < $28::bigint)
		AND ($29::bigint = 0 OR coalesce((SELECT greatest(l.running_bytes - f.running_bytes + f.bytes, f.bytes) FROM f, l), 0) < $29::bigint)
	ON CONFLICT (consumer, source, id) DO NOTHING
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM i), 'a message that may be parked');

-- name: ReplaceParked
-- Replaces the message with the source $28 and the ID $29 by another message of the same key.
WITH u AS (
	UPDATE /*schema*/skald_parked SET source = $2::text, id = $3::text, attempts = $4::integer, due = clock_timestamp() + $5::bigint * interval '1 microsecond',
		blocks_key = $6::boolean, first_at = $7::timestamptz, first_error = $8::text, first_host = $9::text, last_at = $10::timestamptz, last_error = $11::text,
		last_host = $12::text, dead_at = $13::timestamptz, kind = $14::text, fingerprint = $15::text, stack = $16::text, version = $17::text,
		key = $18::bytea, topic = $19::text, type = $20::text, data = $21::bytea, envelope = $22::bytea, bytes = $23::bigint, partition = $24::text,
		position = $25::bigint, fault = $26::text, key_lock = $27::bigint, since = clock_timestamp(),
		call = CASE WHEN $30::text LIKE '{"since":null,%' THEN '{"since":' || to_json(clock_timestamp())::text || substr($30::text, 14) ELSE $30::text END,
		claims = 0, crash_count = 0, claimed_by = '', waiting = waiting AND $6::boolean, failures = $31::text
	WHERE consumer = $1::text AND source = $28::text AND id = $29::text AND call IS NULL
		AND NOT EXISTS (SELECT FROM /*schema*/skald_parked AS o WHERE o.consumer = $1::text AND o.source = $2::text AND o.id = $3::text)
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM u), 'a parked message without another call, and no stored replacement');

-- name: UpdateParked
WITH u AS (
	UPDATE /*schema*/skald_parked SET attempts = $4::integer, due = clock_timestamp() + $5::bigint * interval '1 microsecond', blocks_key = $6::boolean,
		first_at = $7::timestamptz, first_error = $8::text, first_host = $9::text, last_at = $10::timestamptz, last_error = $11::text,
		last_host = $12::text, dead_at = $13::timestamptz, kind = $14::text, fingerprint = $15::text, stack = $16::text, version = $17::text,
		call = CASE WHEN $19::text LIKE '{"since":null,%' THEN '{"since":' || coalesce(CASE WHEN call::json ->> 'key' = $19::text::json ->> 'key' THEN nullif((call::json -> 'since')::text, 'null') END,
			to_json(clock_timestamp())::text) || substr($19::text, 14) ELSE $19::text END,
		claims = $20::integer, crash_count = $21::integer, claimed_by = $22::text, waiting = waiting AND $6::boolean, failures = $26::text
	WHERE consumer = $1::text AND source = $2::text AND id = $3::text AND attempts = $18::integer AND dead_at IS NULL
		AND coalesce(call::json ->> 'key', '') = $23::text AND NOT (waiting AND call IS NULL AND $19::text IS NOT NULL)
		AND ($24::integer IS NULL OR claims = $24::integer AND claimed_by = $25::text)
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM u), 'a parked message');

-- name: StepBack
-- Runs before a dead letter that did not block its key blocks the key again. If a later message of the key has an external call in progress, the
-- dead letter goes to the end of the key. Otherwise both could wait for each other.
UPDATE /*schema*/skald_parked AS p SET place = DEFAULT,
	running_count = 1 + coalesce((SELECT l.running_count FROM /*schema*/skald_parked AS l WHERE l.consumer = p.consumer AND l.key = p.key AND l.blocks_key ORDER BY l.place DESC LIMIT 1), 0),
	running_bytes = p.bytes + coalesce((SELECT l.running_bytes FROM /*schema*/skald_parked AS l WHERE l.consumer = p.consumer AND l.key = p.key AND l.blocks_key ORDER BY l.place DESC LIMIT 1), 0)
WHERE consumer = $1::text AND source = $2::text AND id = $3::text AND key IS NOT NULL AND NOT blocks_key AND EXISTS (
	SELECT FROM /*schema*/skald_parked AS c WHERE c.consumer = p.consumer AND c.call IS NOT NULL AND c.place > p.place AND c.key = p.key);

-- name: RequeueParked
-- Parks a dead letter again. Its age counts from now, so that it gets as many tries as a new message.
WITH u AS (
	UPDATE /*schema*/skald_parked SET attempts = 0, claims = 0, crash_count = 0, due = clock_timestamp(), blocks_key = true, dead_at = NULL,
		kind = '', fingerprint = '', stack = '', version = '', first_at = CASE WHEN first_at IS NOT NULL THEN clock_timestamp() END
	WHERE consumer = $1::text AND source = $2::text AND id = $3::text AND ($4::timestamptz IS NULL OR dead_at = $4::timestamptz)
		AND ($5::integer IS NULL OR dead_at IS NULL AND attempts >= $5::integer)
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM u), 'a parked message or dead letter');

-- name: RequeueDead
UPDATE /*schema*/skald_parked SET attempts = 0, claims = 0, crash_count = 0, due = clock_timestamp(), blocks_key = true, waiting = false, dead_at = NULL,
	kind = '', fingerprint = '', stack = '', version = '', first_at = CASE WHEN first_at IS NOT NULL THEN clock_timestamp() END
WHERE consumer = $1::text AND source = $2::text AND id = $3::text AND dead_at IS NOT NULL;

-- name: LetGo
-- Makes a dead letter stop blocking its key if its step is barred or undone, because the message can have no effect any more.
UPDATE /*schema*/skald_parked SET blocks_key = false
WHERE consumer = $1::text AND source = $2::text AND id = $3::text AND dead_at IS NOT NULL AND EXISTS (
	SELECT FROM /*schema*/skald_step WHERE consumer = $1::text AND saga = $4::text AND step = $5::text AND occurrence = $6::text AND state IN (6, 7));

-- name: SettleParked
-- Runs after a change of a message: the first message of its key becomes due, and the others wait.
WITH k AS (
	SELECT key FROM /*schema*/skald_parked WHERE consumer = $1::text AND source = $2::text AND id = $3::text
), f AS (
	SELECT place FROM /*schema*/skald_parked WHERE consumer = $1::text AND key = (SELECT key FROM k) AND blocks_key ORDER BY place LIMIT 1
), w AS (
	UPDATE /*schema*/skald_parked SET waiting = true
	WHERE consumer = $1::text AND key = (SELECT key FROM k) AND blocks_key AND NOT waiting AND place > (SELECT place FROM f)
), d AS (
	UPDATE /*schema*/skald_parked SET waiting = false, due = clock_timestamp() WHERE place = (SELECT place FROM f) AND waiting
)
SELECT 1;

-- name: FinishParked
-- Deletes a claimed message. The next message of its key becomes due.
WITH d AS (
	DELETE FROM /*schema*/skald_parked WHERE consumer = $1::text AND source = $2::text AND id = $3::text
		AND ($4::integer IS NULL OR attempts = $4::integer AND dead_at IS NULL AND coalesce(call::json ->> 'key', '') = $5::text)
		AND ($6::timestamptz IS NULL OR dead_at = $6::timestamptz) AND $7::bigint IN (0, place)
	RETURNING place, key
), n AS (
	UPDATE /*schema*/skald_parked SET waiting = false, due = clock_timestamp()
	WHERE waiting AND place = (
		SELECT p.place FROM /*schema*/skald_parked AS p
		WHERE p.consumer = $1::text AND p.key = (SELECT key FROM d) AND p.blocks_key AND p.place <> (SELECT place FROM d) ORDER BY p.place LIMIT 1)
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM d), 'a parked message or dead letter');

-- name: TouchParked
-- Checks the guard of FinishParked, for a transaction that does not choose the next message of the key.
WITH u AS (
	UPDATE /*schema*/skald_parked SET claims = claims WHERE consumer = $1::text AND source = $2::text AND id = $3::text
		AND ($4::integer IS NULL OR attempts = $4::integer AND dead_at IS NULL AND coalesce(call::json ->> 'key', '') = $5::text)
		AND ($6::timestamptz IS NULL OR dead_at = $6::timestamptz) AND $7::bigint IN (0, place)
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM u), 'a parked message or dead letter');

-- name: Claim
-- Claims due messages. Only the first message of a key can be due, so skipping locked rows does not change the order of a key. The clock is read
-- once, because a condition with a clock for each row could not end the walk of the index. c updates messages that an earlier claim prefetched,
-- if its result was lost. a has the messages to prefetch now: the first ones after h, the claimed message. Both end at the limit of bytes.
WITH d AS (
	SELECT place, key, claims, prefetched_to, crash_count = 0 AND call IS NULL AND claims = 0 AND key IS NOT NULL AS plain,
		bytes + coalesce(octet_length(envelope), 0) AS size
	FROM /*schema*/skald_parked WHERE consumer = $1::text AND dead_at IS NULL AND NOT waiting AND due <= (SELECT clock_timestamp())
		AND topic || chr(31) || type <> ALL ($5::text[])
	ORDER BY due LIMIT $2::integer FOR UPDATE SKIP LOCKED
), h AS (
	SELECT * FROM (SELECT d.*, sum(d.size) OVER p AS upto, row_number() OVER p AS n FROM d WINDOW p AS (ROWS UNBOUNDED PRECEDING)) AS d
	WHERE upto <= /*pagebytes*/ OR n = 1
), c AS (
	UPDATE /*schema*/skald_parked SET claims = claims + 1 WHERE place = ANY (ARRAY(
		SELECT p.place FROM h CROSS JOIN LATERAL (
			SELECT p.place FROM /*schema*/skald_parked AS p
			WHERE p.consumer = $1::text AND p.key = h.key AND p.blocks_key AND p.place > h.place AND p.place <= h.prefetched_to
			ORDER BY p.place FOR UPDATE SKIP LOCKED
		) AS p WHERE h.claims > 0 AND h.prefetched_to IS NOT NULL))
), b AS (
	SELECT h.place AS first, w.* FROM h CROSS JOIN LATERAL (
		SELECT p.*, bool_and(p.dead_at IS NULL AND p.call IS NULL AND p.claims = 0 AND p.crash_count = 0
			AND p.topic || chr(31) || p.type <> ALL ($5::text[])) OVER (ORDER BY p.place) AS plain
		FROM (
			SELECT * FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.key = h.key AND p.blocks_key AND p.place > h.place
			ORDER BY p.place LIMIT $6::integer
		) AS p
	) AS w WHERE h.plain AND w.plain LIMIT $7::integer
), a AS (
	SELECT * FROM (SELECT b.*, sum(b.bytes + coalesce(octet_length(b.envelope), 0)) OVER (ROWS UNBOUNDED PRECEDING) AS upto FROM b) AS b
	WHERE upto <= /*pagebytes*/ - (SELECT max(upto) FROM h)
), u AS (
	UPDATE /*schema*/skald_parked AS p SET due = clock_timestamp() + $3::bigint * interval '1 microsecond', claims = p.claims + 1,
		claimed_by = $4::text, prefetched_to = l.prefetched_to
	FROM (
		SELECT b.place, max(b.prefetched_to) AS prefetched_to FROM (SELECT place, NULL::bigint AS prefetched_to FROM h UNION ALL SELECT first, place FROM a) AS b GROUP BY b.place
	) AS l WHERE p.place = l.place
	RETURNING p.*
)
SELECT consumer, source, id, attempts, 0::bigint, blocks_key, first_at, first_error, first_host, last_at, last_error, last_host,
	dead_at, kind, fingerprint, stack, version, key, data, envelope, partition, position, fault, waiting, place, since, call, claims, crash_count, claimed_by,
	failures, clock_timestamp() FROM u
UNION ALL
SELECT consumer, source, id, attempts, 0::bigint, blocks_key, first_at, first_error, first_host, last_at, last_error, last_host,
	dead_at, kind, fingerprint, stack, version, key, data, envelope, partition, position, fault, waiting, place, since, call, claims, crash_count, claimed_by,
	failures, clock_timestamp() FROM a;

-- name: NextDue
-- Returns the time until the next message is due, and whether an operator admitted a message from the quarantine.
SELECT coalesce((SELECT greatest((extract(epoch FROM due - clock_timestamp()) * 1000000)::bigint, 1) FROM /*schema*/skald_parked
	WHERE consumer = $1::text AND dead_at IS NULL AND NOT waiting AND topic || chr(31) || type <> ALL ($2::text[]) ORDER BY due LIMIT 1), 0),
	EXISTS (SELECT FROM /*schema*/skald_quarantine WHERE consumer = $1::text AND admitted_at IS NOT NULL AND taken_at IS NULL);

-- name: Parked
SELECT consumer, source, id, attempts, greatest((extract(epoch FROM due - clock_timestamp()) * 1000000)::bigint, 0), blocks_key, first_at, first_error, first_host,
	last_at, last_error, last_host, dead_at, kind, fingerprint, stack, version, key, CASE WHEN NOT $2::boolean THEN data END, envelope, partition,
	position, fault, waiting, place, since, call, claims, crash_count, claimed_by, failures, clock_timestamp()
FROM /*from*/
WHERE place > $1::bigint/*where*/
ORDER BY place LIMIT $3::integer;

-- name: ParkedEnd
SELECT place FROM /*from*/ WHERE place > $1::bigint/*where*/ ORDER BY place OFFSET $2::bigint LIMIT 1;

-- name: Keeping
SELECT parked, dead, parked_bytes, dead_bytes, coalesce(round(greatest(extract(epoch FROM clock_timestamp() - parked_at), 0) * 1000000), 0)::bigint,
	(SELECT count(*) FROM /*schema*/skald_quarantine WHERE consumer = $1::text AND taken_at IS NULL)
FROM /*schema*/skald_kept_counts($1::text);

-- name: LockKeyOrders
-- Locks keys in the order of the array.
SELECT count(pg_advisory_xact_lock(t) IS NULL) FROM unnest($1::bigint[]) AS t;

-- name: FindKeyOrders
-- Returns the messages from the broker that are parked or must wait, as skald_check_key_order does for one message. The transaction has locked
-- their keys. A setting keeps the numbers of the returned messages, so that the next statements insert no marks for them. $7 has the distinct
-- sources. An ID above all stored IDs of its source needs no look-up; IDs with a timestamp usually are above. Each blocked key has a first
-- message that does not wait. There are few such messages, so the statement looks for the keys among them. If no key is blocked, it examines no
-- message. It does not use key = ANY, because a plan for an empty table would read all parked messages.
SELECT t.n, (CASE WHEN t.dead THEN -4 WHEN NOT t.dead THEN -3
		WHEN (SELECT true FROM /*schema*/skald_floor AS f WHERE f.consumer = $1::text AND t.old > 0 AND f.at >= to_timestamp(t.old / 1000.0)) THEN -1
		ELSE -5 END)::smallint,
	set_config('skald.kept', concat(current_setting('skald.kept'), ',', t.n), true)
FROM (
	SELECT i.n, i.old, i.key = ANY (k.held) AS behind,
		CASE WHEN i.id <= k.last[i.of] THEN (SELECT p.dead_at IS NOT NULL FROM /*schema*/skald_parked AS p
			WHERE p.consumer = $1::text AND p.source = i.source AND p.id = i.id) END AS dead
	FROM (
		SELECT ARRAY(SELECT a.key FROM unnest($4::bytea[]) AS a(key) WHERE (SELECT p.place FROM /*schema*/skald_parked AS p
				WHERE p.consumer = $1::text AND p.key = a.key AND p.blocks_key AND NOT p.waiting LIMIT 1) IS NOT NULL) AS held,
			ARRAY(SELECT (SELECT p.id FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.source = u.source ORDER BY p.id DESC LIMIT 1)
				FROM unnest($7::text[]) AS u(source)) AS last
		WHERE (SELECT p.place FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text LIMIT 1) IS NOT NULL
		OFFSET 0
	) AS k CROSS JOIN unnest($2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::integer[], $8::integer[]) AS i(source, id, key, old, n, of)
	WHERE k.held <> '{}' OR (SELECT min(a.id) FROM unnest($3::text[]) AS a(id)) <= (SELECT max(l.id) FROM unnest(k.last) AS l(id))
	OFFSET 0
) AS t WHERE t.dead IS NOT NULL OR t.behind;

-- name: FindClaimed
-- Does as FindKeyOrders for claimed messages. It returns those that are not the first messages of their key in that order, or that do not have
-- the attempts of their claim. $5 to $8 have the messages, grouped by key. $2 to $4 have the keys, the number of messages of each key, and the
-- number of messages before them. $9 to $12 have the messages without a key.
SELECT ($8::integer[])[g.at], -6::smallint, set_config('skald.kept', concat(current_setting('skald.kept'), ',', ($8::integer[])[g.at]), true)
FROM unnest($2::bytea[], $3::integer[], $4::integer[]) AS k(key, many, before)
CROSS JOIN LATERAL (
	SELECT coalesce(min(r.at) FILTER (WHERE NOT (r.dead_at IS NULL AND r.source = ($5::text[])[r.at] AND r.id = ($6::text[])[r.at]
		AND r.attempts = ($7::integer[])[r.at])), k.before + count(*)::integer + 1) AS at
	FROM (
		SELECT f.*, k.before + row_number() OVER (ORDER BY f.place)::integer AS at FROM (
			SELECT p.place, p.source, p.id, p.attempts, p.dead_at FROM /*schema*/skald_parked AS p
			WHERE p.consumer = $1::text AND p.key = k.key AND p.blocks_key ORDER BY p.place LIMIT k.many
		) AS f
	) AS r
) AS stop
CROSS JOIN LATERAL generate_series(stop.at, k.before + k.many) AS g(at)
UNION ALL
SELECT i.n, -6::smallint, set_config('skald.kept', concat(current_setting('skald.kept'), ',', i.n), true)
FROM unnest($9::text[], $10::text[], $11::integer[], $12::integer[]) AS i(source, id, tries, n)
WHERE (SELECT p.place FROM /*schema*/skald_parked AS p
	WHERE p.consumer = $1::text AND p.source = i.source AND p.id = i.id AND p.attempts = i.tries AND p.dead_at IS NULL) IS NULL;

-- name: LockManyParked
-- Does as LockParked for many messages, in the order of the locks.
SELECT count(pg_advisory_xact_lock(t.key_lock) IS NULL) FROM (
	SELECT (SELECT p.key_lock FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.source = i.source AND p.id = i.id) AS key_lock
	FROM unnest($2::text[], $3::text[]) AS i(source, id) ORDER BY 1 OFFSET 0
) AS t;

-- name: FinishMany
-- Does as FinishParked for many claimed messages, in the order of their places. It finds them by place, because a look-up by source and ID takes
-- longer. It compares source and ID by a hash join, because other joins take longer.
WITH d AS (
	DELETE FROM /*schema*/skald_parked WHERE place = ANY ($2::bigint[]) RETURNING place, consumer, source, id, attempts, dead_at, call, key
), n AS (
	UPDATE /*schema*/skald_parked SET waiting = false, due = clock_timestamp()
	WHERE waiting AND place = ANY (ARRAY(
		SELECT (SELECT p.place FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.key = d.key AND p.blocks_key
			AND p.place <> ALL ($2::bigint[]) ORDER BY p.place LIMIT 1)
		FROM (SELECT DISTINCT key FROM d) AS d))
)
SELECT /*schema*/skald_require(coalesce((
	SELECT array_agg(source) = $3::text[] AND array_agg(id) = $4::text[] AND array_agg(attempts) = $5::integer[]
		AND array_agg(coalesce(call::json ->> 'key', '')) = $6::text[] AND bool_and(dead_at IS NULL AND consumer = $1::text)
	FROM (SELECT * FROM d ORDER BY place) AS d), false), 'a parked message or dead letter');
