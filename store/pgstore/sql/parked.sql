-- name: Turn
SELECT /*schema*/skald_turn($1::bigint, $2::text, $3::text, $4::text, $5::bytea, $6::integer);

-- name: TakeTurn
-- Turn with what Session does, before it: a statement less for each message.
SELECT CASE WHEN coalesce($9::timestamptz <> pg_postmaster_start_time(), false) AND /*schema*/skald_guard(false, 'the server') THEN 0::smallint
	WHEN set_config('lock_timeout', $7::text, true) IS NOT NULL
		AND set_config('idle_in_transaction_session_timeout', $8::text, true) IS NOT NULL
		AND set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
	THEN /*schema*/skald_turn($1::bigint, $2::text, $3::text, $4::text, $5::bytea, $6::integer) END;

-- name: TakeArrive
-- What Session does, and the lock of a key, for InsertArriving, which has a snapshot behind it and is planned without scans of whole
-- tables: see Walk.
SELECT CASE WHEN coalesce($4::timestamptz <> pg_postmaster_start_time(), false) AND /*schema*/skald_guard(false, 'the server') THEN NULL
	WHEN set_config('lock_timeout', $2::text, true) IS NOT NULL
		AND set_config('idle_in_transaction_session_timeout', $3::text, true) IS NOT NULL
		AND set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
		AND pg_advisory_xact_lock($1::bigint) IS NOT NULL AND set_config('skald.seqscan', current_setting('enable_seqscan'), true) IS NOT NULL
	THEN set_config('enable_seqscan', 'off', true) END;

-- name: FollowArrive
-- TakeArrive behind the COMMIT of another message, whose answer must not wait for a rival of this one.
SELECT CASE WHEN coalesce($4::timestamptz <> pg_postmaster_start_time(), false) AND /*schema*/skald_guard(false, 'the server') THEN NULL
	WHEN set_config('lock_timeout', $2::text, true) IS NOT NULL
		AND set_config('idle_in_transaction_session_timeout', $3::text, true) IS NOT NULL
		AND set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
		AND CASE WHEN pg_try_advisory_xact_lock($1::bigint) THEN true ELSE /*schema*/skald_guard(false, 'a free key') END
		AND set_config('skald.seqscan', current_setting('enable_seqscan'), true) IS NOT NULL
	THEN set_config('enable_seqscan', 'off', true) END;

-- name: FollowTurn
-- What FollowArrive does about a rival, before TakeTurn.
SELECT CASE WHEN pg_try_advisory_xact_lock($1::bigint) THEN true ELSE /*schema*/skald_guard(false, 'a free key') END;

-- name: GuardTurn
SELECT /*schema*/skald_guard(/*schema*/skald_turn($1::bigint, $2::text, $3::text, $4::text, $5::bytea, $6::integer) = 0, 'a turn');

-- name: LockTurn
SELECT pg_advisory_xact_lock($1::bigint) IS NULL;

-- name: LockKept
-- The key of a kept message. What follows has a snapshot behind it.
SELECT pg_advisory_xact_lock((SELECT turn FROM /*schema*/skald_parked WHERE consumer = $1::text AND source = $2::text AND id = $3::text)) IS NULL;

-- name: NoMark
SELECT /*schema*/skald_guard(NOT EXISTS (
	SELECT FROM /*schema*/skald_mark_00 WHERE consumer = $1::text AND source = $2::text AND id = $3::text::uuid), 'no mark');

-- name: NoTimeless
SELECT /*schema*/skald_guard(NOT EXISTS (
	SELECT FROM /*schema*/skald_mark_timeless WHERE consumer = $1::text AND source = $2::text AND id = $3::text), 'no mark');

-- name: InsertKept
-- f and l are the first and the last that hold the key: what lies between them is a subtraction. A dead letter that holds its key
-- again has numbers of another time: it counts as one at least.
WITH f AS (
	SELECT nth, running, bytes FROM /*schema*/skald_parked WHERE consumer = $1::text AND key = $18::bytea AND holds ORDER BY place LIMIT 1
), l AS (
	SELECT nth, running FROM /*schema*/skald_parked WHERE consumer = $1::text AND key = $18::bytea AND holds ORDER BY place DESC LIMIT 1
), i AS (
	INSERT INTO /*schema*/skald_parked (consumer, source, id, attempts, due, holds, first_at, first_error, first_host, last_at, last_error, last_host,
		dead_at, kind, fingerprint, stack, version, key, topic, type, data, envelope, bytes, lane, position, fault, turn, call, waiting, nth, running,
		claims, kills, claimer)
	SELECT $1::text, $2::text, $3::text, $4::integer, clock_timestamp() + $5::bigint * interval '1 microsecond', $6::boolean,
		$7::timestamptz, $8::text, $9::text, $10::timestamptz, $11::text, $12::text, $13::timestamptz, $14::text, $15::text, $16::text, $17::text,
		$18::bytea, $19::text, $20::text, $21::bytea, $22::bytea, $23::bigint, $24::text, $25::bigint, $26::text, $27::bigint, $30::text,
		$6::boolean AND EXISTS (SELECT FROM f), coalesce((SELECT nth FROM l), 0) + 1, coalesce((SELECT running FROM l), 0) + $23::bigint,
		$31::integer, $32::integer, $33::text
	WHERE ($28::bigint = 0 OR coalesce((SELECT greatest(l.nth - f.nth + 1, 1) FROM f, l), 0) < $28::bigint)
		AND ($29::bigint = 0 OR coalesce((SELECT greatest(l.running - f.running + f.bytes, f.bytes) FROM f, l), 0) < $29::bigint)
	ON CONFLICT (consumer, source, id) DO NOTHING
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM i), 'a message to be kept');

-- name: ReplaceKept
-- Another message of the key takes the place of the one at $28 and $29.
WITH u AS (
	UPDATE /*schema*/skald_parked SET source = $2::text, id = $3::text, attempts = $4::integer, due = clock_timestamp() + $5::bigint * interval '1 microsecond',
		holds = $6::boolean, first_at = $7::timestamptz, first_error = $8::text, first_host = $9::text, last_at = $10::timestamptz, last_error = $11::text,
		last_host = $12::text, dead_at = $13::timestamptz, kind = $14::text, fingerprint = $15::text, stack = $16::text, version = $17::text,
		key = $18::bytea, topic = $19::text, type = $20::text, data = $21::bytea, envelope = $22::bytea, bytes = $23::bigint, lane = $24::text,
		position = $25::bigint, fault = $26::text, turn = $27::bigint, since = clock_timestamp(), call = $30::text, claims = 0, kills = 0, claimer = ''
	WHERE consumer = $1::text AND source = $28::text AND id = $29::text AND call IS NULL
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM u), 'a kept message at no call');

-- name: UpdateKept
WITH u AS (
	UPDATE /*schema*/skald_parked SET attempts = $4::integer, due = clock_timestamp() + $5::bigint * interval '1 microsecond', holds = $6::boolean,
		first_at = $7::timestamptz, first_error = $8::text, first_host = $9::text, last_at = $10::timestamptz, last_error = $11::text,
		last_host = $12::text, dead_at = $13::timestamptz, kind = $14::text, fingerprint = $15::text, stack = $16::text, version = $17::text, call = $19::text,
		claims = $20::integer, kills = $21::integer, claimer = $22::text
	WHERE consumer = $1::text AND source = $2::text AND id = $3::text AND attempts = $18::integer AND dead_at IS NULL
		AND coalesce(call::json ->> 'key', '') = $23::text AND NOT (waiting AND call IS NULL AND $19::text IS NOT NULL)
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM u), 'a parked message');

-- name: StepBack
-- Before a dead letter that had freed its key holds it again. Where one that came behind it is at a call, it goes behind all of its key: else each
-- may wait for the other.
UPDATE /*schema*/skald_parked AS p SET place = DEFAULT,
	nth = 1 + coalesce((SELECT l.nth FROM /*schema*/skald_parked AS l WHERE l.consumer = p.consumer AND l.key = p.key AND l.holds ORDER BY l.place DESC LIMIT 1), 0),
	running = p.bytes + coalesce((SELECT l.running FROM /*schema*/skald_parked AS l WHERE l.consumer = p.consumer AND l.key = p.key AND l.holds ORDER BY l.place DESC LIMIT 1), 0)
WHERE consumer = $1::text AND source = $2::text AND id = $3::text AND key IS NOT NULL AND NOT holds AND EXISTS (
	SELECT FROM /*schema*/skald_parked AS c WHERE c.consumer = p.consumer AND c.call IS NOT NULL AND c.place > p.place AND c.key = p.key);

-- name: ReleaseKept
-- A message's age counts from here: a letter that lay for days is tried as often as others.
WITH u AS (
	UPDATE /*schema*/skald_parked SET attempts = 0, claims = 0, kills = 0, due = clock_timestamp(), holds = true, dead_at = NULL,
		kind = '', fingerprint = '', stack = '', version = '', first_at = CASE WHEN first_at IS NOT NULL THEN clock_timestamp() END
	WHERE consumer = $1::text AND source = $2::text AND id = $3::text
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM u), 'a kept message');

-- name: ReleaseDead
UPDATE /*schema*/skald_parked SET attempts = 0, claims = 0, kills = 0, due = clock_timestamp(), holds = true, dead_at = NULL,
	kind = '', fingerprint = '', stack = '', version = '', first_at = CASE WHEN first_at IS NOT NULL THEN clock_timestamp() END
WHERE consumer = $1::text AND source = $2::text AND id = $3::text AND dead_at IS NOT NULL;

-- name: LetGo
-- A dead letter whose step is barred or undone can do nothing any more: it holds nobody.
UPDATE /*schema*/skald_parked SET holds = false
WHERE consumer = $1::text AND source = $2::text AND id = $3::text AND dead_at IS NOT NULL AND EXISTS (
	SELECT FROM /*schema*/skald_step WHERE consumer = $1::text AND saga = $4::text AND step = $5::text AND occurrence = $6::text AND state IN (6, 7));

-- name: SettleKept
-- Behind a change of a message: the first of its key is due, the others wait.
WITH k AS (
	SELECT key FROM /*schema*/skald_parked WHERE consumer = $1::text AND source = $2::text AND id = $3::text
), f AS (
	SELECT place FROM /*schema*/skald_parked WHERE consumer = $1::text AND key = (SELECT key FROM k) AND holds ORDER BY place LIMIT 1
), w AS (
	UPDATE /*schema*/skald_parked SET waiting = true
	WHERE consumer = $1::text AND key = (SELECT key FROM k) AND holds AND NOT waiting AND place > (SELECT place FROM f)
), d AS (
	UPDATE /*schema*/skald_parked SET waiting = false, due = clock_timestamp() WHERE place = (SELECT place FROM f) AND waiting
)
SELECT 1;

-- name: FreeKept
-- The next of its key is due.
WITH d AS (
	DELETE FROM /*schema*/skald_parked WHERE consumer = $1::text AND source = $2::text AND id = $3::text
		AND ($4::integer IS NULL OR attempts = $4::integer AND dead_at IS NULL AND coalesce(call::json ->> 'key', '') = $5::text)
		AND (NOT $6::boolean OR dead_at IS NOT NULL) AND $7::bigint IN (0, place)
	RETURNING place, key
), n AS (
	UPDATE /*schema*/skald_parked SET waiting = false, due = clock_timestamp()
	WHERE waiting AND place = (
		SELECT p.place FROM /*schema*/skald_parked AS p
		WHERE p.consumer = $1::text AND p.key = (SELECT key FROM d) AND p.holds AND p.place <> (SELECT place FROM d) ORDER BY p.place LIMIT 1)
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM d), 'a kept message');

-- name: Claim
-- Only the first of a key is ever due, so nobody overtakes by what is locked. The clock is asked once: asked for each row it ends no
-- walk of the index, and what is due in an hour would be looked at each time. c counts for those that were read along the last time, if that
-- had no answer; a are those that are read along now, a prefix of what is behind h.
WITH h AS (
	SELECT place, key, claims, along, kills = 0 AND call IS NULL AND claims = 0 AND key IS NOT NULL AS plain
	FROM /*schema*/skald_parked WHERE consumer = $1::text AND dead_at IS NULL AND NOT waiting AND due <= (SELECT clock_timestamp())
		AND topic || chr(31) || type <> ALL ($5::text[])
	ORDER BY due LIMIT $2::integer FOR UPDATE SKIP LOCKED
), c AS (
	UPDATE /*schema*/skald_parked SET claims = claims + 1 WHERE place = ANY (ARRAY(
		SELECT p.place FROM h CROSS JOIN LATERAL (
			SELECT p.place FROM /*schema*/skald_parked AS p
			WHERE p.consumer = $1::text AND p.key = h.key AND p.holds AND p.place > h.place AND p.place <= h.along
			ORDER BY p.place FOR UPDATE SKIP LOCKED
		) AS p WHERE h.claims > 0 AND h.along IS NOT NULL))
), a AS (
	SELECT h.place AS first, w.* FROM h CROSS JOIN LATERAL (
		SELECT p.*, bool_and(p.dead_at IS NULL AND p.call IS NULL AND p.claims = 0 AND p.kills = 0
			AND p.topic || chr(31) || p.type <> ALL ($5::text[])) OVER (ORDER BY p.place) AS plain
		FROM (
			SELECT * FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.key = h.key AND p.holds AND p.place > h.place
			ORDER BY p.place LIMIT $6::integer
		) AS p
	) AS w WHERE h.plain AND w.plain LIMIT $7::integer
), u AS (
	UPDATE /*schema*/skald_parked AS p SET due = clock_timestamp() + $3::bigint * interval '1 microsecond', claims = p.claims + 1,
		claimer = $4::text, along = l.along
	FROM (
		SELECT b.place, max(b.along) AS along FROM (SELECT place, NULL::bigint AS along FROM h UNION ALL SELECT first, place FROM a) AS b GROUP BY b.place
	) AS l WHERE p.place = l.place
	RETURNING p.*
)
SELECT consumer, source, id, attempts, 0::bigint, holds, first_at, first_error, first_host, last_at, last_error, last_host,
	dead_at, kind, fingerprint, stack, version, key, data, envelope, lane, position, fault, waiting, place, since, call, claims, kills, claimer FROM u
UNION ALL
SELECT consumer, source, id, attempts, 0::bigint, holds, first_at, first_error, first_host, last_at, last_error, last_host,
	dead_at, kind, fingerprint, stack, version, key, data, envelope, lane, position, fault, waiting, place, since, call, claims, kills, claimer FROM a;

-- name: NextDue
SELECT coalesce((SELECT greatest((extract(epoch FROM due - clock_timestamp()) * 1000000)::bigint, 1) FROM /*schema*/skald_parked
	WHERE consumer = $1::text AND dead_at IS NULL AND NOT waiting AND topic || chr(31) || type <> ALL ($2::text[]) ORDER BY due LIMIT 1), 0);

-- name: Kept
SELECT consumer, source, id, attempts, greatest((extract(epoch FROM due - clock_timestamp()) * 1000000)::bigint, 0), holds, first_at, first_error, first_host,
	last_at, last_error, last_host, dead_at, kind, fingerprint, stack, version, key, CASE WHEN NOT $2::boolean THEN data END, envelope, lane,
	position, fault, waiting, place, since, call, claims, kills, claimer
FROM /*schema*/skald_parked
WHERE place > $1::bigint/*where*/
ORDER BY place LIMIT $3::integer;

-- name: Keeping
SELECT parked, dead, bytes, round(oldest_seconds * 1000000)::bigint FROM /*schema*/skald_keeping WHERE consumer = $1::text;

-- name: InsertAudit
INSERT INTO /*schema*/skald_audit (who, why, what, consumer, source, id, run) VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text);

-- name: Audited
SELECT seq, at, who, why, what, consumer, source, id, run FROM /*schema*/skald_audit
WHERE run = $1::text AND run <> '' AND seq > $2::bigint ORDER BY seq LIMIT $3::integer;

-- name: AuditedLast
SELECT seq, at, who, why, what, consumer, source, id, run FROM /*schema*/skald_audit WHERE seq < $1::bigint ORDER BY seq DESC LIMIT $2::integer;

-- name: LockTurns
-- In their order.
SELECT count(pg_advisory_xact_lock(t) IS NULL) FROM unnest($1::bigint[]) AS t;

-- name: FindTurns
-- What skald_turn says of messages that arrive, of those that it says something of. Their keys are locked by now. Their numbers are kept in
-- a setting, for the statements behind this one, which give them no mark. $7 are the sources that there are: an id that sorts behind all
-- that are kept of its source is not looked for, and ids that tell their time mostly do. A key that is held has a first that waits for
-- nobody, and these are few: a key is looked for among them. Where nothing is found, no message is looked at. Not key = ANY: planned when
-- nothing is parked, that reads all that wait for nobody.
SELECT t.n, (CASE WHEN t.dead THEN -4 WHEN NOT t.dead THEN -3
		WHEN (SELECT true FROM /*schema*/skald_floor AS f WHERE f.consumer = $1::text AND t.old > 0 AND f.at > to_timestamp(t.old / 1000.0)) THEN -1
		ELSE -5 END)::smallint,
	set_config('skald.kept', concat(current_setting('skald.kept'), ',', t.n), true)
FROM (
	SELECT i.n, i.old, i.key = ANY (k.held) AS behind,
		CASE WHEN i.id <= k.last[i.of] THEN (SELECT p.dead_at IS NOT NULL FROM /*schema*/skald_parked AS p
			WHERE p.consumer = $1::text AND p.source = i.source AND p.id = i.id) END AS dead
	FROM (
		SELECT ARRAY(SELECT a.key FROM unnest($4::bytea[]) AS a(key) WHERE (SELECT p.place FROM /*schema*/skald_parked AS p
				WHERE p.consumer = $1::text AND p.key = a.key AND p.holds AND NOT p.waiting LIMIT 1) IS NOT NULL) AS held,
			ARRAY(SELECT (SELECT p.id FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.source = u.source ORDER BY p.id DESC LIMIT 1)
				FROM unnest($7::text[]) AS u(source)) AS last
		WHERE (SELECT p.place FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text LIMIT 1) IS NOT NULL
		OFFSET 0
	) AS k CROSS JOIN unnest($2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::integer[], $8::integer[]) AS i(source, id, key, old, n, of)
	WHERE k.held <> '{}' OR (SELECT min(a.id) FROM unnest($3::text[]) AS a(id)) <= (SELECT max(l.id) FROM unnest(k.last) AS l(id))
	OFFSET 0
) AS t WHERE t.dead IS NOT NULL OR t.behind;

-- name: FindClaimed
-- The same of messages that were claimed: of each key those stand that are first of it, in that order, as they were claimed. $5 to $8 are
-- the messages, one key behind the other, and $2 to $4 the keys, how many are of each, and how many are before them; those that have no key
-- are in $9 to $12.
SELECT ($8::integer[])[g.at], -6::smallint, set_config('skald.kept', concat(current_setting('skald.kept'), ',', ($8::integer[])[g.at]), true)
FROM unnest($2::bytea[], $3::integer[], $4::integer[]) AS k(key, many, before)
CROSS JOIN LATERAL (
	SELECT coalesce(min(r.at) FILTER (WHERE NOT (r.dead_at IS NULL AND r.source = ($5::text[])[r.at] AND r.id = ($6::text[])[r.at]
		AND r.attempts = ($7::integer[])[r.at])), k.before + count(*)::integer + 1) AS at
	FROM (
		SELECT f.*, k.before + row_number() OVER (ORDER BY f.place)::integer AS at FROM (
			SELECT p.place, p.source, p.id, p.attempts, p.dead_at FROM /*schema*/skald_parked AS p
			WHERE p.consumer = $1::text AND p.key = k.key AND p.holds ORDER BY p.place LIMIT k.many
		) AS f
	) AS r
) AS stop
CROSS JOIN LATERAL generate_series(stop.at, k.before + k.many) AS g(at)
UNION ALL
SELECT i.n, -6::smallint, set_config('skald.kept', concat(current_setting('skald.kept'), ',', i.n), true)
FROM unnest($9::text[], $10::text[], $11::integer[], $12::integer[]) AS i(source, id, tries, n)
WHERE (SELECT p.place FROM /*schema*/skald_parked AS p
	WHERE p.consumer = $1::text AND p.source = i.source AND p.id = i.id AND p.attempts = i.tries AND p.dead_at IS NULL) IS NULL;

-- name: LockManyKept
-- LockKept for many, in the order of the locks.
SELECT count(pg_advisory_xact_lock(t.turn) IS NULL) FROM (
	SELECT (SELECT p.turn FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.source = i.source AND p.id = i.id) AS turn
	FROM unnest($2::text[], $3::text[]) AS i(source, id) ORDER BY 1 OFFSET 0
) AS t;

-- name: FreeMany
-- FreeKept for many that were claimed, at the places where they lay then, in that order: to find them again by their names takes longer. So
-- does a join with them, without a hash.
WITH d AS (
	DELETE FROM /*schema*/skald_parked WHERE place = ANY ($2::bigint[]) RETURNING place, consumer, source, id, attempts, dead_at, call, key
), n AS (
	UPDATE /*schema*/skald_parked SET waiting = false, due = clock_timestamp()
	WHERE waiting AND place = ANY (ARRAY(
		SELECT (SELECT p.place FROM /*schema*/skald_parked AS p WHERE p.consumer = $1::text AND p.key = d.key AND p.holds
			AND p.place <> ALL ($2::bigint[]) ORDER BY p.place LIMIT 1)
		FROM (SELECT DISTINCT key FROM d) AS d))
)
SELECT /*schema*/skald_guard(coalesce((
	SELECT array_agg(source) = $3::text[] AND array_agg(id) = $4::text[] AND array_agg(attempts) = $5::integer[]
		AND array_agg(coalesce(call::json ->> 'key', '')) = $6::text[] AND bool_and(dead_at IS NULL AND consumer = $1::text)
	FROM (SELECT * FROM d ORDER BY place) AS d), false), 'a kept message');
