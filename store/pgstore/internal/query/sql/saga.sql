-- name: StartSaga
-- Inserts a new saga, and nothing if it exists. It waits for a rival that starts the same saga. It reads the clock once, so that all times are
-- equal.
INSERT INTO /*schema*/skald_saga (name, key, id, hash, input, fingerprint, origin, state, status, stuck, paused, step, error, failed, since, retry,
	session, version, started_at, changed_at, due)
SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::bigint, $7::text, $8::text, $9::text, $10::boolean, $11::boolean, $12::text, $13::text,
	$14::integer, $15::timestamptz, $16::timestamptz, $17::text, $19::bigint, n.at, n.at, n.at + $18::bigint * interval '1 microsecond'
FROM (SELECT clock_timestamp() AS at) AS n
ON CONFLICT (name, key) DO NOTHING
RETURNING (extract(epoch FROM started_at) * 1000000)::bigint, (extract(epoch FROM due) * 1000000)::bigint;

-- name: StartSagas
-- Does as StartSaga for many sagas, in the order of names and keys, so that two such statements cannot deadlock.
INSERT INTO /*schema*/skald_saga (name, key, id, hash, input, origin, state, status, step, error, session, fingerprint, version, stuck, paused,
	failed, since, retry, started_at, changed_at, due)
SELECT m.name, m.key, m.id, m.hash, m.input, m.origin, m.state, m.status, m.step, m.error, m.session, m.fingerprint, m.version, m.stuck, m.paused,
	m.failed, m.since, m.retry, n.at, n.at, n.at + m.lease * interval '1 microsecond'
FROM (SELECT clock_timestamp() AS at) AS n, unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
	$9::text[], $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::boolean[], $16::boolean[], $17::integer[],
	$18::timestamptz[], $19::timestamptz[]) WITH ORDINALITY
	AS m(name, key, id, hash, input, origin, state, status, step, error, session, fingerprint, lease, version, stuck, paused, failed, since, retry, nth)
ORDER BY m.name COLLATE "C", m.key COLLATE "C", m.nth
ON CONFLICT (name, key) DO NOTHING
RETURNING name, key, (extract(epoch FROM started_at) * 1000000)::bigint, (extract(epoch FROM due) * 1000000)::bigint;

-- name: StartSagaInstead
-- Does as StartSaga, and replaces an ended saga.
UPDATE /*schema*/skald_saga AS s SET id = $3::text, hash = $4::text, input = $5::text, fingerprint = $6::bigint, origin = $7::text, state = $8::text,
	status = $9::text, stuck = $10::boolean, paused = $11::boolean, step = $12::text, error = $13::text, failed = $14::integer,
	since = $15::timestamptz, retry = $16::timestamptz, session = $17::text, version = $19::bigint, started_at = n.at, changed_at = n.at,
	due = n.at + $18::bigint * interval '1 microsecond', ended_at = NULL
FROM (SELECT clock_timestamp() AS at) AS n
WHERE s.name = $1::text AND s.key = $2::text AND s.id = $20::text AND s.ended_at IS NOT NULL
RETURNING (extract(epoch FROM s.started_at) * 1000000)::bigint, (extract(epoch FROM s.due) * 1000000)::bigint;

-- name: FindSaga
SELECT /*saga*/ FROM /*schema*/skald_saga AS s WHERE s.name = $1::text AND s.key = $2::text;

-- name: LockSaga
SELECT /*saga*/ FROM /*schema*/skald_saga AS s WHERE s.name = $1::text AND s.key = $2::text FOR NO KEY UPDATE;

-- name: LockSagas
-- Does as LockSaga for many sagas, in the order of names and keys, so that two such statements cannot deadlock. The locking subquery reads its
-- rows through the index, one by one.
SELECT s.*, m.n FROM (
	SELECT r.name, r.key, r.n FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS r(name, key, n)
	ORDER BY r.name COLLATE "C", r.key COLLATE "C") AS m
CROSS JOIN LATERAL (
	SELECT /*saga*/ FROM /*schema*/skald_saga AS s WHERE s.name = m.name AND s.key = m.key FOR NO KEY UPDATE) AS s;

-- name: HoldSaga
-- Locks a saga that has the given version.
SELECT true FROM /*schema*/skald_saga WHERE name = $1::text AND key = $2::text AND version = $3::bigint FOR NO KEY UPDATE;

-- name: TakeSaga
-- Does as Session and HoldSaga together, which saves a statement for each step. It sets the timeouts before it reads the row, and also if there
-- is no row.
SELECT true FROM /*schema*/skald_saga WHERE name = $1::text AND key = $2::text AND version = $3::bigint AND (/*session*/)
FOR NO KEY UPDATE;

-- name: FollowSaga
-- Does as TakeSaga, but does not wait for a lock, because it shares a round trip with the COMMIT of another transaction.
SELECT true FROM /*schema*/skald_saga WHERE name = $1::text AND key = $2::text AND version = $3::bigint AND (/*session*/)
FOR NO KEY UPDATE NOWAIT;

-- name: MoveSaga
WITH m AS (
	UPDATE /*schema*/skald_saga AS s SET version = s.version + 1, /*move*/
	WHERE s.name = $1::text AND s.key = $2::text AND s.version = $3::bigint
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM m), 'a saga');

-- name: MoveHeld
-- Does as MoveSaga and GuardLent together, for a saga that TakeSaga locked in this transaction. If the version differs, it fails with 22P02. A
-- failing cast needs no right to a function.
UPDATE /*schema*/skald_saga AS s
SET version = CASE WHEN s.version = $3::bigint THEN s.version + 1 ELSE ('the saga is at ' || s.version)::bigint END
		/ (coalesce(current_setting('skald.lent', true), '') = 'yes')::integer,
	/*move*/
WHERE s.name = $1::text AND s.key = $2::text;

-- name: MoveSagas
-- Does as MoveSaga for many sagas, in the order of the arrays. It returns the moved sagas and does not fail for the others.
UPDATE /*schema*/skald_saga AS s SET version = s.version + 1, /*moves*/
FROM /*moved*/
WHERE s.name = m.name AND s.key = m.key AND s.version = m.version
RETURNING m.n;

-- name: MoveAllSagas
-- Does as MoveSagas, and fails unless all sagas moved.
WITH d AS (
	UPDATE /*schema*/skald_saga AS s SET version = s.version + 1, /*moves*/
	FROM /*moved*/
	WHERE s.name = m.name AND s.key = m.key AND s.version = m.version
	RETURNING 1
)
SELECT /*schema*/skald_require((SELECT count(*) FROM d) = cardinality($1::text[]), 'a saga');

-- name: ClaimSagas
-- Claims due sagas. "due" reads more sagas than requested, because other transactions may have locked some. "free" locks them one by one until
-- there are enough. The last row has the number of due sagas, and the microseconds until the next saga is due; NULL if there is none.
WITH now AS MATERIALIZED (
	SELECT clock_timestamp() AS at
), due AS MATERIALIZED (
	SELECT d.name, d.key, d.due FROM unnest($1::text[]) AS h(hash) CROSS JOIN LATERAL (
		SELECT s.name, s.key, s.due FROM /*schema*/skald_saga AS s WHERE s.hash = h.hash AND s.due <= (SELECT at FROM now)
		ORDER BY s.due LIMIT 4 * $2::bigint + 1) AS d
	ORDER BY d.due, d.name, d.key LIMIT 4 * $2::bigint + 1
), free AS MATERIALIZED (
	SELECT d.name, d.key, d.due, s.bytes, s.session FROM due AS d CROSS JOIN LATERAL (
		SELECT octet_length(s.input) + octet_length(s.state) AS bytes, s.session FROM /*schema*/skald_saga AS s
		WHERE s.name = d.name AND s.key = d.key AND s.hash = ANY ($1::text[]) AND s.due <= (SELECT at FROM now)
		FOR NO KEY UPDATE SKIP LOCKED) AS s
	LIMIT $2::bigint
), fit AS MATERIALIZED (
	SELECT f.name, f.key, f.due, f.session FROM (
		SELECT name, key, due, session, sum(bytes) OVER w AS total, row_number() OVER w AS n FROM free WINDOW w AS (ORDER BY due, name, key)) AS f
	WHERE f.n = 1 OR f.total <= $5::bigint
), claimed AS (
	UPDATE /*schema*/skald_saga AS s SET version = s.version + 1, session = $3::text, due = (SELECT at FROM now) + $4::bigint * interval '1 microsecond'
	FROM fit AS f WHERE s.name = f.name AND s.key = f.key
	RETURNING /*saga*/, (extract(epoch FROM f.due) * 1000000)::bigint AS was, f.session AS lapsed
)
SELECT c.*, NULL::bigint AS found, NULL::bigint AS next FROM claimed AS c
UNION ALL
SELECT '', '', '', '', '', 0, '', '', 0, '', false, false, '', '', 0, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, 0, '', (SELECT count(*) FROM due),
	(SELECT (extract(epoch FROM min(l.due) - n.at) * 1000000)::bigint FROM unnest($1::text[]) AS h(hash) CROSS JOIN LATERAL (
		SELECT s.due FROM /*schema*/skald_saga AS s WHERE s.hash = h.hash AND s.due > n.at ORDER BY s.due LIMIT 1) AS l)
FROM now AS n;

-- name: NoteSagaDefinitions
-- Stores new definitions with a rising number for each name. Two definitions that are stored at the same time may get the same number; then
-- neither counts as the later one.
INSERT INTO /*schema*/skald_saga_definition (name, hash, number, written, noted_at)
SELECT d.name, d.hash, (SELECT coalesce(max(o.number), 0) + 1 FROM /*schema*/skald_saga_definition AS o WHERE o.name = d.name),
	d.written, clock_timestamp() FROM unnest($1::text[], $2::text[], $3::text[]) AS d(name, hash, written)
ON CONFLICT (name, hash) DO UPDATE SET written = EXCLUDED.written, noted_at = EXCLUDED.noted_at;

-- name: ListSagaDefinitions
SELECT name, hash, number, written, noted_at FROM /*schema*/skald_saga_definition ORDER BY name, number DESC, hash;

-- name: ListSagas
-- First selects at most $17 rows (NULL means all) by the conditions that an index supports. Then it filters them by the other conditions. The
-- last examined row is always in the result, even if it does not match, so that the caller can continue after it.
SELECT /*saga*/, s.n, s.meant FROM (
	SELECT l.*, ($4::text = '' OR l.id = $4::text) AND ($5::text[] IS NULL OR l.status = ANY ($5::text[]))
		AND ($10::text = '' OR l.step = $10::text) AND ($11::text = '' OR strpos(l.error, $11::text) > 0)
		AND ($12::timestamptz IS NULL OR l.started_at < $12::timestamptz) AND ($13::timestamptz IS NULL OR l.started_at > $13::timestamptz) AS meant
	FROM (
		SELECT s.name, s.key, s.id, s.hash, CASE WHEN $1::boolean THEN '' ELSE s.input END AS input, s.fingerprint, s.origin,
			CASE WHEN $1::boolean THEN '' ELSE s.state END AS state, s.version, s.status, s.stuck, s.paused, s.step, s.error, s.failed, s.since, s.retry,
			s.session, s.due, s.started_at, s.changed_at, s.ended_at, row_number() OVER (ORDER BY s.name, s.key) AS n
		FROM /*schema*/skald_saga AS s
		WHERE ($2::text = '' OR s.name = $2::text) AND ($3::text = '' OR s.key = $3::text)
			AND (NOT $6::boolean OR (s.ended_at IS NULL AND ($5::text[] IS NULL OR s.status = ANY ($5::text[]))))
			AND (NOT $7::boolean OR s.stuck) AND (NOT $8::boolean OR s.paused) AND (NOT $9::boolean OR s.retry IS NOT NULL)
			AND ($14::text IS NULL OR (s.name, s.key) > ($14::text COLLATE "C", $15::text COLLATE "C"))
		ORDER BY s.name, s.key LIMIT $17::bigint) AS l) AS s
WHERE s.meant OR s.n = $17::bigint ORDER BY s.name, s.key LIMIT $16::integer;

-- name: ListSagasOfKey
-- Lists the sagas of a key of any name. There are few names, so it looks up each name with the key in the index.
WITH RECURSIVE name AS (
	(SELECT name AS name FROM /*schema*/skald_saga ORDER BY name LIMIT 1)
	UNION ALL
	SELECT (SELECT s.name FROM /*schema*/skald_saga AS s WHERE s.name > n.name ORDER BY s.name LIMIT 1) FROM name AS n WHERE n.name IS NOT NULL
)
SELECT /*saga*/ FROM name AS n JOIN /*schema*/skald_saga AS s ON s.name = n.name AND s.key = $1::text ORDER BY s.name LIMIT $2::integer;

-- name: CountSagas
-- Each count reads a part of an index, at most 10,000 entries. "overdue" follows sagarow.Late. Sagas that were left to other builds count as
-- failing.
WITH RECURSIVE name AS (
	(SELECT name AS name FROM /*schema*/skald_saga ORDER BY name LIMIT 1)
	UNION ALL
	SELECT (SELECT s.name FROM /*schema*/skald_saga AS s WHERE s.name > n.name ORDER BY s.name LIMIT 1) FROM name AS n WHERE n.name IS NOT NULL
), hash AS (
	(SELECT hash AS hash FROM /*schema*/skald_saga WHERE due IS NOT NULL ORDER BY hash LIMIT 1)
	UNION ALL
	SELECT (SELECT s.hash FROM /*schema*/skald_saga AS s WHERE s.due IS NOT NULL AND s.hash > h.hash ORDER BY s.hash LIMIT 1) FROM hash AS h WHERE h.hash IS NOT NULL
), late AS (
	SELECT o.name, count(*) AS n FROM hash AS h CROSS JOIN LATERAL (
		SELECT s.name FROM /*schema*/skald_saga AS s
		WHERE s.hash = h.hash AND s.due < (SELECT clock_timestamp()) - $1::bigint * interval '1 microsecond' LIMIT 10000) AS o
	GROUP BY o.name
), part AS (
	SELECT n.name, k.status, k.stuck, k.paused, k.failing, c.n, l.n AS left_over, l.since, o.started_at FROM name AS n
	CROSS JOIN (SELECT a.status, b.stuck, c.paused, d.failing FROM unnest(ARRAY['running', 'compensating']) AS a(status)
		CROSS JOIN unnest(ARRAY[false, true]) AS b(stuck) CROSS JOIN unnest(ARRAY[false, true]) AS c(paused)
		CROSS JOIN unnest(ARRAY[false, true]) AS d(failing)) AS k
	CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM /*schema*/skald_saga AS s WHERE s.ended_at IS NULL AND s.status = k.status
		AND s.stuck = k.stuck AND s.paused = k.paused AND (s.retry IS NOT NULL) = k.failing AND s.name = n.name LIMIT 10000) AS l) AS c
	CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE f.session = '' AND starts_with(f.error, $3::text)
			AND f.since < (SELECT clock_timestamp()) - $2::bigint * interval '1 microsecond'
			AND (f.due IS NULL OR f.due >= (SELECT clock_timestamp()) - $1::bigint * interval '1 microsecond')) AS n,
		min(f.since) FILTER (WHERE f.failed > 0) AS since
		FROM (SELECT s.session, s.due, s.since, s.error, s.failed FROM /*schema*/skald_saga AS s
		WHERE k.failing AND s.ended_at IS NULL AND s.status = k.status AND s.stuck = k.stuck AND s.paused = k.paused
			AND (s.retry IS NOT NULL) = k.failing AND s.name = n.name LIMIT 10000) AS f) AS l
	LEFT JOIN LATERAL (SELECT s.started_at FROM /*schema*/skald_saga AS s WHERE s.ended_at IS NULL AND s.status = k.status
		AND s.stuck = k.stuck AND s.paused = k.paused AND (s.retry IS NOT NULL) = k.failing AND s.name = n.name
		ORDER BY s.started_at LIMIT 1) AS o ON c.n > 0
	WHERE n.name IS NOT NULL
)
SELECT p.name, least(coalesce(sum(p.n) FILTER (WHERE p.status = 'running'), 0), 10000)::bigint,
	least(coalesce(sum(p.n) FILTER (WHERE p.status = 'compensating'), 0), 10000)::bigint,
	least(coalesce(sum(p.n) FILTER (WHERE p.stuck), 0), 10000)::bigint, least(coalesce(sum(p.n) FILTER (WHERE p.paused), 0), 10000)::bigint,
	least(coalesce(sum(p.n) FILTER (WHERE p.failing), 0), 10000)::bigint,
	least(coalesce((SELECT l.n FROM late AS l WHERE l.name = p.name), 0) + sum(p.left_over), 10000)::bigint,
	coalesce((extract(epoch FROM clock_timestamp() - min(p.started_at)) * 1000000)::bigint, 0),
	coalesce((extract(epoch FROM clock_timestamp() - min(p.since)) * 1000000)::bigint, 0)
FROM part AS p GROUP BY p.name ORDER BY p.name;
