-- name: InsertMark
-- An id that is further ahead than an hour tells no time.
INSERT INTO skald_mark (consumer, source, id, outcome, reason, written)
VALUES (?1, ?2, ?3, ?4, ?5, CASE WHEN ?6 < CAST(unixepoch('subsec') * 1000 AS INTEGER) + 3600000 THEN ?6
	ELSE CAST(unixepoch('subsec') * 1000 AS INTEGER) END)
ON CONFLICT (consumer, source, id) DO NOTHING;

-- name: FindMark
SELECT outcome, coalesce(reason, '') FROM skald_mark WHERE consumer = ?1 AND source = ?2 AND id = ?3;
