-- name: Tip
-- Returns the last seq. It can end a window, because the single writer commits in the order of seq.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'skald_outbox'), 0);

-- name: Pull
-- Reads a page of a window. For a row of more than store.RowBytes, it reads only the size, because SQLite knows the length of a value without
-- reading it. OFFSET prevents SQLite from computing the size again for each column.
SELECT seq, bucket, substr(id, 1, 1024), substr(source, 1, 1024), iif(size <= 1048576, topic, substr(topic, 1, 256)), iif(size <= 1048576 OR octet_length(key) <= 1024, key, NULL),
	iif(size <= 1048576 OR octet_length(key_bytes) <= 1024, key_bytes, NULL), iif(size <= 1048576, type, ''), iif(size <= 1048576, data, NULL),
	iif(size <= 1048576, data_bytes, NULL), iif(size <= 1048576, content_type, ''), iif(size <= 1048576, schema, NULL), iif(size <= 1048576, subject, NULL),
	iif(size <= 1048576, correlation_id, NULL), iif(size <= 1048576, causation_id, NULL), iif(size <= 1048576, traceparent, NULL),
	iif(size <= 1048576, headers, NULL), substr(time, 1, 64), size, iif(size > 1048576, '', NULL)
FROM (
	SELECT seq AS at, octet_length(source) + octet_length(topic) + octet_length(type) + octet_length(content_type) + octet_length(time)
		+ coalesce(octet_length(key), octet_length(key_bytes), 0) + coalesce(octet_length(data), 0) + coalesce(octet_length(data_bytes), 0)
		+ coalesce(octet_length(headers), 0) + coalesce(octet_length(schema), 0) + coalesce(octet_length(subject), 0)
		+ coalesce(octet_length(correlation_id), 0) + coalesce(octet_length(causation_id), 0) + coalesce(octet_length(traceparent), 0) AS size
	FROM skald_outbox
	WHERE seq > ?1 AND seq <= ?2 AND (bucket IS NULL OR bucket BETWEEN ?3 AND ?4)
	ORDER BY seq LIMIT -1 OFFSET 0
) CROSS JOIN skald_outbox ON seq = at;
