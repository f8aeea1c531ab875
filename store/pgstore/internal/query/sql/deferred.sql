-- name: Defer
-- Stores a copy of a row that the broker refused. If the copy exists, it only updates attempts, reason and due.
INSERT INTO /*schema*/skald_deferred (seq, bucket, id, source, topic, key, type, data, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, attempts, reason, due, bytes, sha256)
VALUES ($1::bigint, $2::smallint, $3::text, $4::text, $5::text, $6::bytea, $7::text, $8::bytea, $9::text, $10::text, $11::text,
	$12::text, $13::text, $14::text, $15::bytea, $16::timestamptz, $17::integer, $18::text, clock_timestamp() + $19::bigint * interval '1 microsecond',
	$20::bigint, $21::text)
ON CONFLICT (seq) DO UPDATE SET attempts = excluded.attempts, reason = excluded.reason, due = excluded.due;

-- name: DeferUnread
-- Does as Defer for a row that the relay cannot read: it copies the row unchanged from the outbox.
INSERT INTO /*schema*/skald_deferred (seq, bucket, id, source, topic, key, type, data, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, attempts, reason, due)
SELECT o.seq, /*bucket*/, o.id, o.source, o.topic, coalesce(o.key_bytes, convert_to(o.key, 'UTF8')), o.type,
	coalesce(o.data_bytes, convert_to(o.data, 'UTF8')), o.content_type, o.schema, o.subject, coalesce(o.correlation_id, o.id::text),
	o.causation_id, o.traceparent, convert_to(o.headers::text, 'UTF8'), o.time, $2::integer, $3::text,
	clock_timestamp() + $4::bigint * interval '1 microsecond'
FROM /*schema*/skald_outbox AS o WHERE o.seq = $1::bigint
ON CONFLICT (seq) DO NOTHING;

-- name: PutOffDeferred
UPDATE /*schema*/skald_deferred SET attempts = $2::integer, reason = $3::text, due = clock_timestamp() + $4::bigint * interval '1 microsecond'
WHERE seq = $1::bigint;

-- name: FinishDeferred
DELETE FROM /*schema*/skald_deferred WHERE seq = ANY ($1::bigint[]);

-- name: Held
SELECT DISTINCT a.topic, a.key, l.id
FROM /*schema*/skald_deferred AS a JOIN /*schema*/skald_shard AS l ON a.bucket BETWEEN l.first_bucket AND l.last_bucket
WHERE a.key IS NOT NULL AND l.id = ANY ($1::integer[])
ORDER BY a.topic, a.key;

-- name: Retry
-- Returns for each key the first row, if it is due, and the waiting rows after it, up to the next row with attempts. It limits bytes as Pull
-- does. The keys that were due first come first, so that many rows that the broker always refuses do not delay other rows.
SELECT o.seq, o.bucket, o.id, /*left*/o.source, /*left*/o.topic, CASE WHEN o.size <= /*rowbytes*/ OR octet_length(o.key) <= 1024 THEN o.key END AS key, /*none*/o.type, /*whole*/o.data,
	/*none*/o.content_type, /*whole*/o.schema, /*whole*/o.subject, /*whole*/o.correlation_id, /*whole*/o.causation_id, /*whole*/o.traceparent,
	/*whole*/o.headers,
	CASE WHEN o.time >= to_timestamp(-62135596800) AND o.time < to_timestamp(253402300800) THEN (extract(epoch FROM o.time) * 1000000)::bigint END AS time,
	o.attempts, o.reason, CASE WHEN o.size > /*rowbytes*/ THEN o.size END AS large,
	CASE WHEN o.size > /*rowbytes*/ THEN coalesce(o.sha256, encode(sha256(o.data), 'hex'), '') END AS hash
FROM (
	SELECT w.*, sum(CASE WHEN w.size <= /*rowbytes*/ THEN w.size::integer ELSE 0 END) OVER (ORDER BY w.head, w.seq ROWS UNBOUNDED PRECEDING) AS upto FROM (
		SELECT a.*, h.due AS head, coalesce(a.bytes, octet_length(a.source)::bigint + octet_length(a.topic) + octet_length(a.type) + octet_length(a.content_type)
			+ coalesce(octet_length(a.key), 0) + coalesce(octet_length(a.data), 0) + coalesce(octet_length(a.headers), 0)
			+ coalesce(octet_length(a.schema), 0) + coalesce(octet_length(a.subject), 0) + coalesce(octet_length(a.correlation_id), 0)
			+ coalesce(octet_length(a.causation_id), 0) + coalesce(octet_length(a.traceparent), 0)) AS size
		FROM /*schema*/skald_deferred AS a JOIN (
			SELECT o.seq, row_number() OVER w AS place, first_value(o.due) OVER w AS due, max(o.attempts) OVER w AS tried
			FROM /*schema*/skald_deferred AS o JOIN /*schema*/skald_shard AS l ON o.bucket BETWEEN l.first_bucket AND l.last_bucket
			WHERE l.id = ANY ($1::integer[])
			WINDOW w AS (PARTITION BY o.topic, o.key, CASE WHEN o.key IS NULL THEN o.seq END ORDER BY o.seq)
		) AS h ON h.seq = a.seq
		WHERE h.due <= clock_timestamp() AND (h.place = 1 OR h.tried = 0)
		ORDER BY h.due, a.seq
		LIMIT $2::integer
	) AS w
) AS o WHERE o.upto <= /*pagebytes*/
ORDER BY o.head, o.seq;

-- name: LockDeferred
-- Locks the shard of a deferred row, so that no relay stores progress at the same time.
SELECT l.id FROM /*schema*/skald_shard AS l WHERE EXISTS (
	SELECT FROM /*schema*/skald_deferred AS a WHERE a.id = $1::text AND a.bucket BETWEEN l.first_bucket AND l.last_bucket)
ORDER BY l.id FOR UPDATE OF l;

-- name: DropDeferred
WITH d AS (DELETE FROM /*schema*/skald_deferred WHERE id = $1::text AND attempts > 0 RETURNING 1)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM d), 'a deferred row');
