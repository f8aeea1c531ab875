-- name: Covered
-- All rows up to it were acknowledged by every lane.
SELECT coalesce(min(max(CAST(base AS INTEGER), CASE WHEN tip IN ('', base) THEN 0 ELSE min(seq, CAST(tip AS INTEGER)) END)), 0)
FROM skald_lane;

-- name: DeleteRows
-- Looks at no more than ?3 rows, the oldest.
DELETE FROM skald_outbox WHERE seq IN (
	SELECT seq FROM (SELECT seq, stored_at FROM skald_outbox WHERE seq <= ?1 ORDER BY seq LIMIT ?3)
	WHERE stored_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2));

-- name: DeleteMarks
DELETE FROM skald_mark WHERE arrival IN (
	SELECT arrival FROM skald_mark WHERE written < CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER) ORDER BY written LIMIT ?2);

-- name: Looked
UPDATE skald_maintained SET looked_at = CAST(unixepoch('subsec') * 1000 AS INTEGER);

-- name: Emptied
UPDATE skald_maintained SET emptied_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE name = ?1;
