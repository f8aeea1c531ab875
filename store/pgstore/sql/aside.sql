-- name: SetAside
-- One that is there already gets its attempts, why and due.
INSERT INTO /*schema*/skald_aside (seq, bucket, id, source, topic, key, type, data, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, attempts, why, due)
VALUES ($1::bigint, $2::smallint, $3::text, $4::text, $5::text, $6::bytea, $7::text, $8::bytea, $9::text, $10::text, $11::text,
	$12::text, $13::text, $14::text, $15::bytea, $16::timestamptz, $17::integer, $18::text, clock_timestamp() + $19::bigint * interval '1 microsecond')
ON CONFLICT (seq) DO UPDATE SET attempts = excluded.attempts, why = excluded.why, due = excluded.due;

-- name: FreeAside
DELETE FROM /*schema*/skald_aside WHERE seq = ANY ($1::bigint[]);

-- name: Held
SELECT DISTINCT a.topic, a.key, l.id
FROM /*schema*/skald_aside AS a JOIN /*schema*/skald_lane AS l ON a.bucket BETWEEN l.first_bucket AND l.last_bucket
WHERE a.key IS NOT NULL AND l.id = ANY ($1::integer[])
ORDER BY a.topic, a.key;

-- name: Retry
-- Of a key the first row, if it is due; behind it what only waits, up to the first that was tried.
SELECT a.seq, a.bucket, a.id, a.source, a.topic, a.key, a.type, a.data, a.content_type, a.schema, a.subject,
	a.correlation_id, a.causation_id, a.traceparent, a.headers, a.time, a.attempts, a.why
FROM /*schema*/skald_aside AS a JOIN (
	SELECT o.seq, row_number() OVER w AS place, first_value(o.due) OVER w AS due, max(o.attempts) OVER w AS tried
	FROM /*schema*/skald_aside AS o JOIN /*schema*/skald_lane AS l ON o.bucket BETWEEN l.first_bucket AND l.last_bucket
	WHERE l.id = ANY ($1::integer[])
	WINDOW w AS (PARTITION BY o.topic, o.key, CASE WHEN o.key IS NULL THEN o.seq END ORDER BY o.seq)
) AS h ON h.seq = a.seq
WHERE h.due <= clock_timestamp() AND (h.place = 1 OR h.tried = 0)
ORDER BY a.seq
LIMIT $2::integer;
