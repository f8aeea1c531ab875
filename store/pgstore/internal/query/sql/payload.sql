-- name: ListPayloads
-- Returns the payloads of the newest rows and of the first deferred rows. PostgreSQL knows the length of a value without reading it, so the
-- statement never reads values above the limits.
SELECT id, topic, type, content_type, is_read, CASE WHEN is_read THEN coalesce(data_bytes, convert_to(data, 'UTF8')) END,
	CASE WHEN is_read THEN coalesce(convert_to(headers::text, 'UTF8'), headers_bytes) END
FROM (
	SELECT w.*, size <= $2::bigint AND sum(CASE WHEN size <= $2::bigint THEN size ELSE 0 END) OVER (ORDER BY deferred, place) <= $3::bigint AS is_read
	FROM (
		SELECT p.*, coalesce(octet_length(data), octet_length(data_bytes))::bigint
			+ coalesce(pg_column_size(headers), octet_length(headers_bytes), 0) AS size
		FROM (
			(SELECT false AS deferred, -seq AS place, id::text AS id, topic, type, content_type, data, data_bytes, headers, NULL::bytea AS headers_bytes, erased_at
			FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT $1::integer)
			UNION ALL
			(SELECT true, seq, id, topic, type, content_type, NULL, data, NULL, headers, erased_at
			FROM /*schema*/skald_deferred AS a
			WHERE seq NOT IN (SELECT seq FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT $1::integer)
			ORDER BY seq LIMIT $1::integer)
		) AS p
		WHERE (data IS NOT NULL OR data_bytes IS NOT NULL) AND erased_at IS NULL
	) AS w
) AS s
ORDER BY deferred, place;
