-- name: LockTracked
-- Locks the existing rows in the order of their keys, then creates missing rows in that order, so that rivals cannot deadlock. If a rival is
-- creating the same row, it waits and reads that row.
WITH found AS (
	SELECT key, state, due, drift, body, at, changed_at, drifted_at FROM /*schema*/skald_tracked
	WHERE flow = $1::text AND key = ANY(ARRAY(SELECT jsonb_array_elements_text($2::text::jsonb))) ORDER BY key FOR UPDATE
), made AS (
	INSERT INTO /*schema*/skald_tracked AS t (key, flow)
	SELECT k.key, $1::text FROM jsonb_array_elements_text($2::text::jsonb) AS k(key) WHERE k.key NOT IN (SELECT f.key FROM found AS f) ORDER BY k.key
	ON CONFLICT (key, flow) DO UPDATE SET changed_at = t.changed_at
	RETURNING key, state, due, drift, body, at, changed_at, drifted_at
)
SELECT * FROM found UNION ALL SELECT * FROM made;

-- name: SaveTracked
-- Writes rows that LockTracked locked. Because of the last condition, PostgreSQL uses the index even with a plan for an empty table.
UPDATE /*schema*/skald_tracked AS t SET state = n.state, due = n.due, body = n.body, changed_at = clock_timestamp(), drift = n.drift,
	drifted_at = CASE WHEN n.drift = 0 THEN NULL WHEN n.drift > t.drift THEN clock_timestamp() ELSE t.drifted_at END
FROM jsonb_to_recordset($1::text::jsonb) AS n(key text, flow text, state text, due timestamptz, drift integer, body text)
WHERE t.key = n.key AND t.flow = n.flow
	AND t.key = ANY(ARRAY(SELECT k.row ->> 'key' FROM jsonb_array_elements($1::text::jsonb) AS k(row)));

-- name: ListTracked
SELECT flow, key, state, due, drift, body, at, changed_at, drifted_at FROM /*schema*/skald_tracked
WHERE ($1::text = '' OR flow = $1::text) AND ($2::text = '' OR key = $2::text) AND ($3::text = '' OR state = $3::text)
	AND (NOT $4::boolean OR due < clock_timestamp())
ORDER BY key, flow LIMIT $5::integer;

-- name: CountTracked
-- Each count reads a part of an index, at most 10,000 entries. A flow has a row if one of its sagas is running or drifted.
WITH RECURSIVE live AS (
	(SELECT flow AS flow FROM /*schema*/skald_tracked WHERE state IN ('running', 'compensating') ORDER BY flow LIMIT 1)
	UNION ALL
	SELECT (SELECT t.flow FROM /*schema*/skald_tracked AS t WHERE t.state IN ('running', 'compensating') AND t.flow > l.flow ORDER BY t.flow LIMIT 1)
	FROM live AS l WHERE l.flow IS NOT NULL
), drifted AS (
	(SELECT flow AS flow FROM /*schema*/skald_tracked WHERE drifted_at IS NOT NULL ORDER BY flow LIMIT 1)
	UNION ALL
	SELECT (SELECT t.flow FROM /*schema*/skald_tracked AS t WHERE t.drifted_at IS NOT NULL AND t.flow > d.flow ORDER BY t.flow LIMIT 1)
	FROM drifted AS d WHERE d.flow IS NOT NULL
), flows AS (
	SELECT flow FROM live WHERE flow IS NOT NULL UNION SELECT flow FROM drifted WHERE flow IS NOT NULL
), part AS (
	SELECT f.flow, k.state, c.n, l.n AS late, o.key, o.due FROM flows AS f
	CROSS JOIN unnest(ARRAY['running', 'compensating']) AS k(state)
	CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM /*schema*/skald_tracked AS t
		WHERE t.state IN ('running', 'compensating') AND t.flow = f.flow AND t.state = k.state LIMIT 10000) AS x) AS c
	CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM /*schema*/skald_tracked AS t
		WHERE t.state IN ('running', 'compensating') AND t.flow = f.flow AND t.state = k.state AND t.due < (SELECT clock_timestamp()) LIMIT 10000) AS x) AS l
	LEFT JOIN LATERAL (SELECT t.key, t.due FROM /*schema*/skald_tracked AS t
		WHERE t.state IN ('running', 'compensating') AND t.flow = f.flow AND t.state = k.state AND t.due < (SELECT clock_timestamp())
		ORDER BY t.due LIMIT 1) AS o ON l.n > 0
)
SELECT f.flow, (sum(p.n) FILTER (WHERE p.state = 'running'))::bigint, (sum(p.n) FILTER (WHERE p.state = 'compensating'))::bigint,
	least(sum(p.late), 10000)::bigint, coalesce((array_agg(p.key ORDER BY p.due) FILTER (WHERE p.late > 0))[1], ''),
	(SELECT count(*) FROM (SELECT FROM /*schema*/skald_tracked AS t WHERE t.drifted_at IS NOT NULL AND t.flow = f.flow
		AND t.drifted_at > (SELECT clock_timestamp() - interval '1 day') LIMIT 10000) AS x),
	coalesce((SELECT t.key FROM /*schema*/skald_tracked AS t WHERE t.drifted_at IS NOT NULL AND t.flow = f.flow
		AND t.drifted_at > (SELECT clock_timestamp() - interval '1 day') ORDER BY t.drifted_at DESC LIMIT 1), '')
FROM flows AS f JOIN part AS p ON p.flow = f.flow GROUP BY f.flow ORDER BY f.flow;
