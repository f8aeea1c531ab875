-- name: InsertMark
INSERT INTO skald_mark (consumer, source, id, outcome, reason) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (consumer, source, id) DO NOTHING;

-- name: FindMark
SELECT outcome, coalesce(reason, '') FROM skald_mark WHERE consumer = ?1 AND source = ?2 AND id = ?3;
