-- name: Tip
-- The one writer commits in the order of seq, and seq with the rows: the last one drawn ends a window.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'skald_outbox'), 0);

-- name: Pull
SELECT seq, bucket, id, source, topic, key, key_bytes, type, data, data_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time
FROM skald_outbox
WHERE seq > ?1 AND seq <= ?2 AND (bucket IS NULL OR bucket BETWEEN ?3 AND ?4)
ORDER BY seq;
