-- name: FirstInLine
-- Returns the first holder in the queue of the entity (?1, ?2), and whether ?3 is in that queue.
SELECT holder, EXISTS (SELECT 1 FROM skald_hold WHERE space = ?1 AND key = ?2 AND holder = ?3) FROM skald_hold WHERE space = ?1 AND key = ?2 ORDER BY place LIMIT 1;

-- name: StandInLine
INSERT INTO skald_hold (space, key, place, holder, name, saga_key, since)
SELECT ?1, ?2, coalesce((SELECT max(place) FROM skald_hold WHERE space = ?1 AND key = ?2), 0) + 1, ?3, ?4, ?5, CAST(unixepoch('subsec') * 1000 AS INTEGER);

-- name: QueueState
SELECT count(*) > 0, coalesce(min(f.holder = ?1), 0) FROM skald_hold AS h JOIN skald_hold AS f ON f.space = h.space AND f.key = h.key
	AND f.place = (SELECT min(n.place) FROM skald_hold AS n WHERE n.space = h.space AND n.key = h.key)
WHERE h.holder = ?1;

-- name: WakeNext
-- Wakes the sagas that become first when ?1 leaves its queues.
UPDATE skald_saga SET version = version + 1, session = '', due = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE ended_at IS NULL AND (name, key) IN (
	SELECT f.name, f.saga_key FROM skald_hold AS g JOIN skald_hold AS f ON f.space = g.space AND f.key = g.key
		AND f.place > g.place AND f.place = (SELECT min(n.place) FROM skald_hold AS n WHERE n.space = g.space AND n.key = g.key AND n.holder <> ?1)
	WHERE g.holder = ?1);

-- name: LeaveLines
DELETE FROM skald_hold WHERE holder = ?1;

-- name: EntityHolder
SELECT space, key, holder, name, saga_key, since, 0, 0 FROM skald_hold WHERE space = ?1 AND key = ?2 ORDER BY place LIMIT 1;

-- name: ListHolds
SELECT h.space, h.key, h.holder, h.name, h.saga_key, h.since,
	(SELECT count(*) FROM skald_hold AS b WHERE b.space = h.space AND b.key = h.key AND b.place < h.place),
	(SELECT count(*) FROM skald_hold AS b WHERE b.space = h.space AND b.key = h.key AND b.place > h.place)
FROM skald_hold AS h
WHERE (?1 = '' OR h.holder = ?1) AND (?2 = '' OR (h.space = ?2 AND h.key = ?3))
ORDER BY h.space, h.key, h.place LIMIT ?4;
