-- name: ListWritten
SELECT * FROM (
	SELECT seq, source, id, topic, type, coalesce(correlation_id, ''), CAST(round(unixepoch(time, 'subsec') * 1000) AS INTEGER)
	FROM (SELECT * FROM skald_outbox ORDER BY seq DESC LIMIT ?5)
	WHERE ?1 <> '' AND ?1 IN (id, coalesce(correlation_id, ''), coalesce(causation_id, ''), coalesce(subject, ''))
		OR correlation_id IN (SELECT value FROM json_each(?2))
		OR hex(coalesce(key_bytes, CAST(key AS BLOB))) IN (SELECT value FROM json_each(?3))
	ORDER BY seq DESC LIMIT ?4
) ORDER BY seq;

-- name: ListFinished
SELECT m.consumer, m.source, m.id, coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(a.code, 0),
	CAST(round(unixepoch(m.at, 'subsec') * 1000) AS INTEGER) AS moment
FROM json_each(?1) AS c CROSS JOIN json_each(?2) AS i
JOIN skald_mark AS m ON m.consumer = c.value AND m.source = i.value ->> 0 AND m.id = i.value ->> 1
LEFT JOIN skald_answer AS a ON a.arrival = m.arrival
ORDER BY moment, m.arrival LIMIT ?3;
