-- name: StartSaga
-- ?18 is the lease in milliseconds, ?19 the first version.
INSERT INTO skald_saga (name, key, id, hash, input, fingerprint, origin, state, status, stuck, paused, step, error, failed, since, retry,
	session, version, started_at, changed_at, due)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?19, n.at, n.at, n.at + ?18
FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS at) AS n WHERE true
ON CONFLICT (name, key) DO NOTHING;

-- name: StartSagaInstead
-- Does as StartSaga, and replaces the saga ?20 if that saga has ended.
UPDATE skald_saga SET id = ?3, hash = ?4, input = ?5, fingerprint = ?6, origin = ?7, state = ?8, status = ?9, stuck = ?10, paused = ?11, step = ?12,
	error = ?13, failed = ?14, since = ?15, retry = ?16, session = ?17, version = ?19, started_at = n.at, changed_at = n.at, due = n.at + ?18,
	ended_at = NULL
FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS at) AS n WHERE name = ?1 AND key = ?2 AND id = ?20 AND ended_at IS NOT NULL;

-- name: FindSaga
SELECT name, key, id, hash, input, fingerprint, origin, state, version, status, stuck, paused, step, error, failed, since, retry, session, due,
	started_at, changed_at, ended_at
FROM skald_saga WHERE name = ?1 AND key = ?2;

-- name: LockSaga
-- Takes the write lock of the file.
UPDATE skald_saga SET version = version WHERE name = ?1 AND key = ?2;

-- name: StandsSaga
SELECT EXISTS (SELECT 1 FROM skald_saga WHERE name = ?1 AND key = ?2 AND version = ?3);

-- name: MoveSaga
UPDATE skald_saga SET version = version + 1, hash = CASE ?4 WHEN '' THEN hash ELSE ?4 END, state = ?5, status = ?6, stuck = ?7, paused = ?8,
	step = ?9, error = ?10, failed = ?11, since = ?12, retry = ?13, changed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER),
	session = CASE WHEN ?14 OR ?16 THEN '' ELSE session END,
	due = CASE WHEN ?16 THEN NULL WHEN NOT ?14 AND ?17 > 0 THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?17 WHEN NOT ?14 THEN due WHEN ?15 >= 0 THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?15 END,
	ended_at = CASE WHEN ?16 THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) END
WHERE name = ?1 AND key = ?2 AND version = ?3;

-- name: DueSagas
-- Returns at most ?2 due sagas of the definition ?1.
SELECT name, key, due, session, length(CAST(input AS BLOB)) + length(CAST(state AS BLOB)) FROM skald_saga
WHERE hash = ?1 AND due <= CAST(unixepoch('subsec') * 1000 AS INTEGER) ORDER BY due LIMIT ?2;

-- name: NextSaga
-- Returns the time until the next saga of the definition ?1 becomes due, and whether a saga is due now.
SELECT (SELECT min(s.due) - n.at FROM skald_saga AS s WHERE s.hash = ?1 AND s.due > n.at), EXISTS (SELECT 1 FROM skald_saga AS s WHERE s.hash = ?1 AND s.due <= n.at)
FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS at) AS n;

-- name: ClaimSaga
UPDATE skald_saga SET version = version + 1, session = ?3, due = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?4 WHERE name = ?1 AND key = ?2;

-- name: NoteSagaDefinition
INSERT INTO skald_saga_definition (name, hash, number, written, noted_at) VALUES (?1, ?2,
	(SELECT coalesce(max(number), 0) + 1 FROM skald_saga_definition WHERE name = ?1), ?3, CAST(unixepoch('subsec') * 1000 AS INTEGER))
ON CONFLICT (name, hash) DO UPDATE SET written = excluded.written, noted_at = excluded.noted_at;

-- name: ListSagaDefinitions
SELECT name, hash, number, written, noted_at FROM skald_saga_definition ORDER BY name, number DESC, hash;

-- name: ListSagas
-- First selects at most ?17 rows (a negative number means all) by the conditions that an index supports. Then it filters them by the other
-- conditions. The last examined row is always in the result, even if it does not match, so that the caller can continue after it.
SELECT name, key, id, hash, input, fingerprint, origin, state, version, status, stuck, paused,
	step, error, failed, since, retry, session, due, started_at, changed_at, ended_at, n, meant
FROM (
	SELECT *, (?4 = '' OR id = ?4) AND (?5 = '' OR status IN (SELECT value FROM json_each(?5))) AND (?10 = '' OR step = ?10)
		AND (?11 = '' OR instr(error, ?11) > 0) AND (?12 IS NULL OR started_at < ?12) AND (?13 IS NULL OR started_at > ?13) AS meant
	FROM (
		SELECT name, key, id, hash, CASE WHEN ?1 THEN '' ELSE input END AS input, fingerprint, origin, CASE WHEN ?1 THEN '' ELSE state END AS state,
			version, status, stuck, paused, step, error, failed, since, retry, session, due, started_at, changed_at, ended_at,
			row_number() OVER (ORDER BY name, key) AS n
		FROM skald_saga
		WHERE (?2 = '' OR name = ?2) AND (?3 = '' OR key = ?3)
			AND (NOT ?6 OR (ended_at IS NULL AND (?5 = '' OR status IN (SELECT value FROM json_each(?5)))))
			AND (NOT ?7 OR stuck) AND (NOT ?8 OR paused) AND (NOT ?9 OR retry IS NOT NULL)
			AND (name, key) > (?14, ?15)
		ORDER BY name, key LIMIT ?17))
WHERE meant OR n = ?17 ORDER BY name, key LIMIT ?16;

-- name: ListSagasOfKey
-- Lists the sagas of a key of any name. There are few names, so it looks up each name with the key in the index.
WITH RECURSIVE names (name) AS (
	SELECT min(name) FROM skald_saga
	UNION ALL
	SELECT (SELECT min(s.name) FROM skald_saga AS s WHERE s.name > n.name) FROM names AS n WHERE n.name IS NOT NULL
)
SELECT s.name, s.key, id, hash, input, fingerprint, origin, state, version, status, stuck, paused,
	step, error, failed, since, retry, session, due, started_at, changed_at, ended_at
FROM names AS n CROSS JOIN skald_saga AS s WHERE s.name = n.name AND s.key = ?1 ORDER BY s.name LIMIT ?2;

-- name: CountSagas
-- Each count reads a part of an index, at most 10,000 entries. "overdue" follows sagarow.Late. Sagas that were left to other builds count as
-- failing.
WITH RECURSIVE names (name) AS (
	SELECT min(name) FROM skald_saga
	UNION ALL
	SELECT (SELECT min(s.name) FROM skald_saga AS s WHERE s.name > n.name) FROM names AS n WHERE n.name IS NOT NULL
), kinds (status, stuck, paused, failing) AS (
	SELECT a.value, b.value, c.value, d.value FROM json_each('["running","compensating"]') AS a, json_each('[0,1]') AS b, json_each('[0,1]') AS c,
		json_each('[0,1]') AS d
), parts AS (
	SELECT n.name, k.status, k.stuck, k.paused, k.failing,
		(SELECT count(*) FROM (SELECT 1 FROM skald_saga AS s WHERE s.ended_at IS NULL AND s.status = k.status AND s.stuck = k.stuck
			AND s.paused = k.paused AND (s.retry IS NOT NULL) = k.failing AND s.name = n.name LIMIT 10000)) AS n,
		(SELECT min(s.started_at) FROM skald_saga AS s WHERE s.ended_at IS NULL AND s.status = k.status AND s.stuck = k.stuck
			AND s.paused = k.paused AND (s.retry IS NOT NULL) = k.failing AND s.name = n.name) AS oldest,
		(SELECT count(*) FROM (SELECT s.session, s.due, s.since, s.error FROM skald_saga AS s WHERE k.failing AND s.ended_at IS NULL
			AND s.status = k.status AND s.stuck = k.stuck AND s.paused = k.paused AND (s.retry IS NOT NULL) = k.failing AND s.name = n.name
			LIMIT 10000) AS f WHERE f.session = '' AND substr(f.error, 1, length(?3)) = ?3
			AND f.since < CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?2
			AND (f.due IS NULL OR f.due >= CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?1)) AS left_over,
		(SELECT min(f.since) FROM (SELECT s.since, s.failed FROM skald_saga AS s WHERE k.failing AND s.ended_at IS NULL
			AND s.status = k.status AND s.stuck = k.stuck AND s.paused = k.paused AND (s.retry IS NOT NULL) = k.failing AND s.name = n.name
			LIMIT 10000) AS f WHERE f.failed > 0) AS since
	FROM names AS n, kinds AS k WHERE n.name IS NOT NULL
)
SELECT p.name, min(sum(CASE WHEN p.status = 'running' THEN p.n ELSE 0 END), 10000), min(sum(CASE WHEN p.status = 'compensating' THEN p.n ELSE 0 END), 10000),
	min(sum(CASE WHEN p.stuck THEN p.n ELSE 0 END), 10000), min(sum(CASE WHEN p.paused THEN p.n ELSE 0 END), 10000),
	min(sum(CASE WHEN p.failing THEN p.n ELSE 0 END), 10000),
	min((SELECT count(*) FROM (SELECT 1 FROM skald_saga AS s WHERE s.name = p.name AND s.due < CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?1
		LIMIT 10000)) + sum(p.left_over), 10000),
	coalesce(CAST(unixepoch('subsec') * 1000 AS INTEGER) - min(p.oldest), 0),
	coalesce(CAST(unixepoch('subsec') * 1000 AS INTEGER) - min(p.since), 0)
FROM parts AS p GROUP BY p.name ORDER BY p.name;

-- name: DeleteSagas
-- Deletes ended sagas, so that new sagas can use their keys. It keeps a child until its parent has ended, because the parent may still undo the
-- child.
DELETE FROM skald_saga WHERE rowid IN (
	SELECT s.rowid FROM skald_saga AS s WHERE s.ended_at < CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER) AND NOT EXISTS (
		SELECT 1 FROM skald_saga AS p WHERE p.ended_at IS NULL AND instr(s.origin, '"parent"') > 0
			AND p.name = CASE WHEN instr(s.origin, '"parent"') > 0 THEN json_extract(s.origin, '$.parent.name') END
			AND p.key = CASE WHEN instr(s.origin, '"parent"') > 0 THEN json_extract(s.origin, '$.parent.key') END
			AND p.id = CASE WHEN instr(s.origin, '"parent"') > 0 THEN json_extract(s.origin, '$.parent.id') END)
	ORDER BY s.ended_at LIMIT ?2);
