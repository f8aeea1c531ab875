-- name: ListWritten
SELECT * FROM (
	SELECT seq, source, id::text, topic, type, coalesce(correlation_id, ''), round(extract(epoch FROM time) * 1000000)::bigint
	FROM (SELECT * FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT $5::integer) AS o
	WHERE $1::text <> '' AND $1::text IN (id::text, correlation_id, causation_id, subject)
		OR correlation_id = ANY($2::text[])
		OR encode(coalesce(key_bytes, convert_to(key, 'UTF8')), 'hex') = ANY($3::text[])
	ORDER BY seq DESC LIMIT $4::integer
) AS w ORDER BY seq;

-- name: ListFinished
-- Lists marks of several consumers. OFFSET 0 makes each look-up one probe of the index, whatever the statistics are.
SELECT m.consumer, m.source, m.id, coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(a.code, 0), m.at
FROM unnest($1::text[]) AS c(consumer) CROSS JOIN unnest($2::text[], $3::text[]) AS i(source, id)
CROSS JOIN LATERAL (
	SELECT k.* FROM /*schema*/skald_mark AS k WHERE k.consumer = c.consumer AND k.source = i.source AND k.id = i.id OFFSET 0
) AS m LEFT JOIN LATERAL (SELECT * FROM /*schema*/skald_answer AS k WHERE k.arrival = m.arrival OFFSET 0) AS a ON true
ORDER BY m.at, m.arrival LIMIT $4::integer;
