-- name: Covered
-- All rows up to it were acknowledged by every lane.
SELECT coalesce(min(max(CAST(base AS INTEGER), CASE WHEN tip IN ('', base) THEN 0 ELSE min(seq, CAST(tip AS INTEGER)) END)), 0)
FROM skald_lane;

-- name: DeleteRows
-- Looks at no more than ?3 rows, the oldest.
DELETE FROM skald_outbox WHERE seq IN (
	SELECT seq FROM (SELECT seq, stored_at FROM skald_outbox WHERE seq <= ?1 ORDER BY seq LIMIT ?3)
	WHERE stored_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2));

-- name: Meet
-- Consumers that have a mark, by one probe for each, are known from now on.
WITH RECURSIVE c (consumer) AS (
	SELECT min(consumer) FROM skald_mark
	UNION ALL
	SELECT (SELECT min(m.consumer) FROM skald_mark AS m WHERE m.consumer > c.consumer) FROM c WHERE c.consumer IS NOT NULL
)
INSERT INTO skald_floor (consumer, since) SELECT consumer, CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM c WHERE consumer IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: RaiseFloors
-- Of those whose marks go now. A consumer that is younger than marks are kept may still be reading what is older.
UPDATE skald_floor SET at = max(coalesce(at, 0), CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER))
WHERE since < CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER) AND consumer IN (
	SELECT m.consumer FROM skald_mark AS m JOIN skald_floor AS f ON f.consumer = m.consumer
	WHERE m.written < CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER) AND f.since < CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER)
	ORDER BY m.written LIMIT ?2);

-- name: DeleteMarks
-- What is below the floors, the oldest first: they were raised in this transaction, or before.
DELETE FROM skald_mark WHERE arrival IN (
	SELECT m.arrival FROM skald_mark AS m JOIN skald_floor AS f ON f.consumer = m.consumer
	WHERE m.written < CAST(unixepoch('now', 'subsec', ?1) * 1000 AS INTEGER) AND m.written < f.at ORDER BY m.written LIMIT ?2);

-- name: Forecast
-- What DeleteRows, DeleteMarks and DeleteSteps would delete in all: rows up to ?1, kept for ?2, marks for ?3, steps for ?4.
SELECT (SELECT count(*) FROM skald_outbox WHERE seq <= ?1 AND stored_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2)),
	(SELECT count(*) FROM skald_mark AS m JOIN skald_floor AS f ON f.consumer = m.consumer
		WHERE m.written < CAST(unixepoch('now', 'subsec', ?3) * 1000 AS INTEGER)
			AND (m.written < f.at OR f.since < CAST(unixepoch('now', 'subsec', ?3) * 1000 AS INTEGER))),
	(SELECT count(*) FROM skald_step AS s LEFT JOIN skald_step_floor AS f ON f.consumer = s.consumer AND f.step = s.step
		WHERE max(s.at, s.begun) < max(CAST(unixepoch('now', 'subsec', ?4) * 1000 AS INTEGER), coalesce(f.at, 0))
			AND s.state <> 2 AND NOT EXISTS (SELECT 1 FROM skald_parked AS p WHERE p.consumer = s.consumer AND p.source = s.source AND p.id = s.id));

-- name: DeleteQuarantine
-- What was taken; what waits, waits for somebody.
DELETE FROM skald_quarantine WHERE number IN (
	SELECT number FROM skald_quarantine WHERE taken_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1) LIMIT ?2);

-- name: Looked
UPDATE skald_maintained SET looked_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), keep = CASE name WHEN 'skald_outbox' THEN ?1 WHEN 'skald_step' THEN ?3 ELSE ?2 END;

-- name: Own
INSERT INTO skald_lease (name, owner, until) VALUES (?1, ?2, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE skald_lease.owner = excluded.owner OR skald_lease.until <= unixepoch('subsec') * 1000;

-- name: Disown
DELETE FROM skald_lease WHERE name = ?1 AND owner = ?2;

-- name: Keeps
SELECT coalesce(max(CASE name WHEN 'skald_outbox' THEN keep END), 0), coalesce(max(CASE name WHEN 'skald_mark' THEN keep END), 0),
	coalesce(max(CASE name WHEN 'skald_step' THEN keep END), 0)
FROM skald_maintained;

-- name: Emptied
UPDATE skald_maintained SET emptied_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE name = ?1;
