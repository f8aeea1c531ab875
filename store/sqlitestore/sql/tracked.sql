-- name: MakeTracked
INSERT INTO skald_tracked (key, flow) VALUES (?1, ?2) ON CONFLICT (key, flow) DO UPDATE SET changed_at = changed_at
RETURNING flow, key, state, due, drift, body, at, changed_at, drifted_at;

-- name: SaveTracked
UPDATE skald_tracked SET state = ?3, due = ?4, body = ?5, changed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), drift = ?6,
	drifted_at = CASE WHEN ?6 = 0 THEN NULL WHEN ?6 > drift THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) ELSE drifted_at END
WHERE key = ?1 AND flow = ?2;

-- name: ListTracked
SELECT flow, key, state, due, drift, body, at, changed_at, drifted_at FROM skald_tracked
WHERE (?1 = '' OR flow = ?1) AND (?2 = '' OR key = ?2) AND (?3 = '' OR state = ?3) AND (NOT ?4 OR due < unixepoch('subsec') * 1000)
ORDER BY key, flow LIMIT ?5;

-- name: CountTracked
-- Each count reads a part of an index, at most 10,000 entries. A flow has a row if one of its sagas is running or drifted.
WITH RECURSIVE live (flow) AS (
	SELECT min(flow) FROM skald_tracked WHERE state IN ('running', 'compensating')
	UNION ALL
	SELECT (SELECT min(t.flow) FROM skald_tracked AS t WHERE t.state IN ('running', 'compensating') AND t.flow > l.flow) FROM live AS l
	WHERE l.flow IS NOT NULL
), drifted (flow) AS (
	SELECT min(flow) FROM skald_tracked WHERE drifted_at IS NOT NULL
	UNION ALL
	SELECT (SELECT min(t.flow) FROM skald_tracked AS t WHERE t.drifted_at IS NOT NULL AND t.flow > d.flow) FROM drifted AS d WHERE d.flow IS NOT NULL
), flows (flow) AS (
	SELECT flow FROM live WHERE flow IS NOT NULL UNION SELECT flow FROM drifted WHERE flow IS NOT NULL
), parts AS (
	SELECT f.flow, k.value AS state,
		(SELECT count(*) FROM (SELECT 1 FROM skald_tracked AS t WHERE t.state IN ('running', 'compensating') AND t.flow = f.flow AND t.state = k.value
			LIMIT 10000)) AS n,
		(SELECT count(*) FROM (SELECT 1 FROM skald_tracked AS t WHERE t.state IN ('running', 'compensating') AND t.flow = f.flow AND t.state = k.value
			AND t.due < CAST(unixepoch('subsec') * 1000 AS INTEGER) LIMIT 10000)) AS late,
		(SELECT min(t.due) FROM skald_tracked AS t WHERE t.state IN ('running', 'compensating') AND t.flow = f.flow AND t.state = k.value) AS due
	FROM flows AS f, json_each('["running","compensating"]') AS k
)
SELECT f.flow, sum(CASE WHEN p.state = 'running' THEN p.n ELSE 0 END), sum(CASE WHEN p.state = 'compensating' THEN p.n ELSE 0 END),
	min(sum(p.late), 10000),
	CASE WHEN sum(p.late) = 0 THEN '' ELSE coalesce((SELECT t.key FROM parts AS q CROSS JOIN skald_tracked AS t
		WHERE q.flow = f.flow AND t.state IN ('running', 'compensating') AND t.flow = q.flow AND t.state = q.state AND t.due = q.due
		ORDER BY q.due LIMIT 1), '') END,
	(SELECT count(*) FROM (SELECT 1 FROM skald_tracked AS t WHERE t.drifted_at IS NOT NULL AND t.flow = f.flow
		AND t.drifted_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) - 86400000 LIMIT 10000)),
	coalesce((SELECT t.key FROM skald_tracked AS t WHERE t.drifted_at IS NOT NULL AND t.flow = f.flow
		AND t.drifted_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) - 86400000 ORDER BY t.drifted_at DESC LIMIT 1), '')
FROM flows AS f JOIN parts AS p ON p.flow = f.flow GROUP BY f.flow ORDER BY f.flow;
