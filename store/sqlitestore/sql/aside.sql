-- name: SetAside
INSERT INTO skald_aside (seq, bucket, id, source, topic, key, key_bytes, type, data, data_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, attempts, why, due)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
	CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?21)
ON CONFLICT (seq) DO UPDATE SET attempts = excluded.attempts, why = excluded.why, due = excluded.due;

-- name: FreeAside
DELETE FROM skald_aside WHERE seq = ?1;

-- name: Held
SELECT k.topic, k.held, l.id
FROM (SELECT topic, held, min(bucket) AS bucket FROM skald_aside WHERE held IS NOT NULL GROUP BY held, topic) AS k
CROSS JOIN skald_lane AS l ON k.bucket BETWEEN l.first_bucket AND l.last_bucket
WHERE l.id IN (SELECT value FROM json_each(?1))
ORDER BY k.topic, k.held;

-- name: Retry
-- Of a key the first row, if it is due; behind it what only waits, up to the first that was tried. All that
-- decides lies in an index: payloads are read of the page alone.
WITH first (topic, held, seq, attempts, due, bucket) AS (
	SELECT topic, held, min(seq), attempts, due, bucket FROM skald_aside WHERE held IS NOT NULL GROUP BY held, topic
	UNION ALL
	SELECT topic, NULL, seq, 1, due, bucket FROM skald_aside WHERE held IS NULL
), due (topic, held, seq, last) AS (
	SELECT f.topic, f.held, f.seq, CASE WHEN f.attempts > 0 THEN f.seq ELSE
		coalesce((SELECT min(t.seq) - 1 FROM skald_aside AS t WHERE t.topic = f.topic AND t.held = f.held AND t.attempts > 0), 9223372036854775807) END
	FROM first AS f CROSS JOIN skald_lane AS l ON f.bucket BETWEEN l.first_bucket AND l.last_bucket
	WHERE f.due <= CAST(unixepoch('subsec') * 1000 AS INTEGER) AND l.id IN (SELECT value FROM json_each(?1))
)
SELECT seq, bucket, id, source, topic, key, key_bytes, type, data, data_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, attempts, why
FROM skald_aside
WHERE seq IN (
	SELECT a.seq FROM due AS d CROSS JOIN skald_aside AS a ON a.topic = d.topic AND a.held IS d.held AND a.seq BETWEEN d.seq AND d.last
	ORDER BY a.seq LIMIT ?2)
ORDER BY seq;
