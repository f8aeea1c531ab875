-- name: InsertMark
-- Inserts a mark, and none if it exists or the message is too old. ?7 is the time in the ID, NULL without a time; it ignores a time more than
-- seven days ahead. ?8 is true if the floor applies. ?9 is the Keep of the mark in milliseconds; NULL means the general retention of marks.
INSERT INTO skald_mark (consumer, source, id, outcome, reason, fingerprint, written, until)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, CASE WHEN ?7 BETWEEN CAST(unixepoch('subsec') * 1000 AS INTEGER) AND CAST(unixepoch('subsec') * 1000 AS INTEGER) + 604800000 THEN ?7
	ELSE CAST(unixepoch('subsec') * 1000 AS INTEGER) END, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?9
WHERE NOT ?8 OR ?7 IS NULL OR NOT EXISTS (SELECT 1 FROM skald_floor AS f WHERE f.consumer = ?1 AND f.at >= ?7)
ON CONFLICT (consumer, source, id) DO NOTHING;

-- name: ExpireMark
-- Deletes an expired mark. Its answer is deleted with it.
DELETE FROM skald_mark WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND until <= CAST(unixepoch('subsec') * 1000 AS INTEGER);

-- name: FindMark
SELECT coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(m.fingerprint, 0), coalesce(a.code, 0), a.result, coalesce(a.emitted, ''), coalesce(a.headers, ''), m.until - CAST(unixepoch('subsec') * 1000 AS INTEGER)
FROM skald_mark AS m LEFT JOIN skald_answer AS a ON a.arrival = m.arrival
WHERE m.consumer = ?1 AND m.source = ?2 AND m.id = ?3;

-- name: SeenMark
-- Does as FindMark, and ignores an expired mark. ?4 is true if the ID has a timestamp, so that Keep does not apply.
SELECT coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(m.fingerprint, 0), coalesce(a.code, 0), a.result, coalesce(a.emitted, ''), coalesce(a.headers, ''), m.until - CAST(unixepoch('subsec') * 1000 AS INTEGER)
FROM skald_mark AS m LEFT JOIN skald_answer AS a ON a.arrival = m.arrival
WHERE m.consumer = ?1 AND m.source = ?2 AND m.id = ?3 AND (?4 OR m.until IS NULL OR m.until > CAST(unixepoch('subsec') * 1000 AS INTEGER));

-- name: AnswerMark
INSERT INTO skald_answer (arrival, outcome, reason, code, result, emitted, headers)
SELECT arrival, ?4, ?5, ?6, ?7, ?8, ?9 FROM skald_mark WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND outcome IN (1, ?4)
ON CONFLICT DO NOTHING;

-- name: TakeBackMark
-- Deletes the new mark of a parked message or dead letter, so that the transaction can commit its other messages.
DELETE FROM skald_mark WHERE consumer = ?1 AND source = ?2 AND id = ?3;
