-- name: InsertMark
-- An id that is further ahead than an hour tells no time. ?8: the floor counts.
INSERT INTO skald_mark (consumer, source, id, outcome, reason, fingerprint, written)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, CASE WHEN ?7 < CAST(unixepoch('subsec') * 1000 AS INTEGER) + 3600000 THEN ?7
	ELSE CAST(unixepoch('subsec') * 1000 AS INTEGER) END
WHERE NOT ?8 OR ?7 IS NULL OR NOT EXISTS (SELECT 1 FROM skald_floor AS f WHERE f.consumer = ?1 AND f.at > ?7)
ON CONFLICT (consumer, source, id) DO NOTHING;

-- name: FindMark
SELECT coalesce(a.outcome, m.outcome), coalesce(a.reason, m.reason, ''), coalesce(m.fingerprint, 0), coalesce(a.code, 0), a.result, coalesce(a.said, '')
FROM skald_mark AS m LEFT JOIN skald_answer AS a ON a.arrival = m.arrival
WHERE m.consumer = ?1 AND m.source = ?2 AND m.id = ?3;

-- name: AnswerMark
INSERT INTO skald_answer (arrival, outcome, reason, code, result, said)
SELECT arrival, ?4, ?5, ?6, ?7, ?8 FROM skald_mark WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND outcome IN (1, ?4)
ON CONFLICT DO NOTHING;

-- name: Secret
SELECT value FROM skald_setting WHERE name = 'fingerprint key';

-- name: TakeBackMark
-- Of a message that is kept, where others of its transaction are to be committed.
DELETE FROM skald_mark WHERE consumer = ?1 AND source = ?2 AND id = ?3;
