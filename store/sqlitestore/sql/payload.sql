-- name: ListPayloads
-- Returns the payloads of the newest rows and of the first deferred rows. SQLite knows the length of a value without reading it, so the
-- statement never reads values above the limits.
SELECT id, topic, type, content_type, is_read, iif(is_read, data, NULL), iif(is_read, data_bytes, NULL), iif(is_read, headers, NULL)
FROM (
	SELECT *, size <= ?2 AND sum(iif(size <= ?2, size, 0)) OVER (ORDER BY deferred, place) <= ?3 AS is_read
	FROM (
		SELECT *, coalesce(octet_length(data), octet_length(data_bytes)) + coalesce(octet_length(headers), 0) AS size
		FROM (
			SELECT * FROM (SELECT 0 AS deferred, -seq AS place, id, topic, type, content_type, data, data_bytes, headers, erased_at
				FROM skald_outbox ORDER BY seq DESC LIMIT ?1)
			UNION ALL
			SELECT * FROM (SELECT 1, seq, id, topic, type, content_type, data, data_bytes, headers, erased_at
				FROM skald_deferred
				WHERE seq NOT IN (SELECT seq FROM skald_outbox ORDER BY seq DESC LIMIT ?1)
				ORDER BY seq LIMIT ?1)
		)
		WHERE (data IS NOT NULL OR data_bytes IS NOT NULL) AND erased_at IS NULL
	)
)
ORDER BY deferred, place;
