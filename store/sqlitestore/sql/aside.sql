-- name: SetAside
INSERT INTO skald_aside (seq, bucket, id, source, topic, key, key_bytes, type, data, data_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, attempts, why, due)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
	CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?21)
ON CONFLICT (seq) DO UPDATE SET attempts = excluded.attempts, why = excluded.why, due = excluded.due;

-- name: FreeAside
DELETE FROM skald_aside WHERE seq = ?1;

-- name: Held
SELECT DISTINCT a.topic, a.held, l.id
FROM skald_aside AS a JOIN skald_lane AS l ON a.bucket BETWEEN l.first_bucket AND l.last_bucket
WHERE a.held IS NOT NULL AND l.id IN (SELECT value FROM json_each(?1))
ORDER BY a.topic, a.held;

-- name: Retry
-- Of a key the first row, if it is due; behind it what only waits, up to the first that was tried.
SELECT a.seq, a.bucket, a.id, a.source, a.topic, a.key, a.key_bytes, a.type, a.data, a.data_bytes, a.content_type, a.schema, a.subject,
	a.correlation_id, a.causation_id, a.traceparent, a.headers, a.time, a.attempts, a.why
FROM skald_aside AS a JOIN skald_lane AS l ON a.bucket BETWEEN l.first_bucket AND l.last_bucket
JOIN skald_aside AS first ON first.seq = CASE WHEN a.held IS NULL THEN a.seq
	ELSE (SELECT min(f.seq) FROM skald_aside AS f WHERE f.topic = a.topic AND f.held = a.held) END
WHERE l.id IN (SELECT value FROM json_each(?1)) AND first.due <= CAST(unixepoch('subsec') * 1000 AS INTEGER)
	AND (a.seq = first.seq OR NOT EXISTS (
		SELECT 1 FROM skald_aside AS t WHERE t.topic = a.topic AND t.held = a.held AND t.seq <= a.seq AND t.attempts > 0))
ORDER BY a.seq
LIMIT ?2;
