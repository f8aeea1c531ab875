-- name: Defer
INSERT INTO skald_deferred (seq, bucket, id, source, topic, key, key_bytes, type, data, data_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, attempts, reason, due, bytes, sha256)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
	CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?21, ?22, ?23)
ON CONFLICT (seq) DO UPDATE SET attempts = excluded.attempts, reason = excluded.reason, due = excluded.due;

-- name: DeferUnread
-- Does as Defer for a row that the relay cannot read: it copies the row unchanged from the outbox.
INSERT INTO skald_deferred (seq, bucket, id, source, topic, key, key_bytes, type, data, data_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, attempts, reason, due)
SELECT seq, ?2, id, source, topic, key, key_bytes, type, data, data_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, ?3, ?4, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?5
FROM skald_outbox WHERE seq = ?1
ON CONFLICT (seq) DO NOTHING;

-- name: PutOffDeferred
UPDATE skald_deferred SET bucket = ?2, attempts = ?3, reason = ?4, due = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?5 WHERE seq = ?1;

-- name: FinishDeferred
DELETE FROM skald_deferred WHERE seq = ?1;

-- name: Held
SELECT k.topic, k.held, l.id
FROM (SELECT topic, held, min(bucket) AS bucket FROM skald_deferred WHERE held IS NOT NULL GROUP BY held, topic) AS k
CROSS JOIN skald_shard AS l ON k.bucket BETWEEN l.first_bucket AND l.last_bucket
WHERE l.id IN (SELECT value FROM json_each(?1))
ORDER BY k.topic, k.held;

-- name: Retry
-- Returns for each key the first row, if it is due, and the waiting rows after it, up to the next row with attempts. An index has all columns of
-- the conditions, so SQLite reads only the payloads of the page. The keys that were due first come first, so that many rows that the broker
-- always refuses do not delay other rows.
WITH first (topic, held, seq, attempts, due, bucket) AS (
	SELECT topic, held, min(seq), attempts, due, bucket FROM skald_deferred WHERE held IS NOT NULL GROUP BY held, topic
	UNION ALL
	SELECT topic, NULL, seq, 1, due, bucket FROM skald_deferred WHERE held IS NULL
), due (topic, held, seq, due, last) AS (
	SELECT f.topic, f.held, f.seq, f.due, CASE WHEN f.attempts > 0 THEN f.seq ELSE
		coalesce((SELECT min(t.seq) - 1 FROM skald_deferred AS t WHERE t.topic = f.topic AND t.held = f.held AND t.attempts > 0), 9223372036854775807) END
	FROM first AS f CROSS JOIN skald_shard AS l ON f.bucket BETWEEN l.first_bucket AND l.last_bucket
	WHERE f.due <= CAST(unixepoch('subsec') * 1000 AS INTEGER) AND l.id IN (SELECT value FROM json_each(?1))
)
SELECT p.seq, bucket, id, substr(source, 1, 1024), iif(size <= 1048576, topic, substr(topic, 1, 256)), iif(size <= 1048576 OR octet_length(key) <= 1024, key, NULL),
	iif(size <= 1048576 OR octet_length(key_bytes) <= 1024, key_bytes, NULL), iif(size <= 1048576, type, ''), iif(size <= 1048576, data, NULL),
	iif(size <= 1048576, data_bytes, NULL), iif(size <= 1048576, content_type, ''), iif(size <= 1048576, schema, NULL), iif(size <= 1048576, subject, NULL),
	iif(size <= 1048576, correlation_id, NULL), iif(size <= 1048576, causation_id, NULL), iif(size <= 1048576, traceparent, NULL),
	iif(size <= 1048576, headers, NULL), substr(time, 1, 64), size, iif(size > 1048576, coalesce(sha256, ''), NULL), attempts, reason
FROM (
	SELECT a.seq, d.due FROM due AS d CROSS JOIN skald_deferred AS a ON a.topic = d.topic AND a.held IS d.held AND a.seq BETWEEN d.seq AND d.last
	ORDER BY d.due, a.seq LIMIT ?2
) AS p CROSS JOIN (
	SELECT *, coalesce(bytes, octet_length(source) + octet_length(topic) + octet_length(type) + octet_length(content_type) + octet_length(time)
		+ coalesce(octet_length(key), octet_length(key_bytes), 0) + coalesce(octet_length(data), 0) + coalesce(octet_length(data_bytes), 0)
		+ coalesce(octet_length(headers), 0) + coalesce(octet_length(schema), 0) + coalesce(octet_length(subject), 0)
		+ coalesce(octet_length(correlation_id), 0) + coalesce(octet_length(causation_id), 0) + coalesce(octet_length(traceparent), 0)) AS size
	FROM skald_deferred
) AS s ON s.seq = p.seq
ORDER BY p.due, p.seq;
