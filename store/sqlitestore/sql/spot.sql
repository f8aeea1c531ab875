-- name: Spots
SELECT lane, origin, position, reach, suspect, life, note, at FROM skald_spot WHERE consumer = ?1 ORDER BY lane;

-- name: OccupySpot
INSERT INTO skald_spot (consumer, lane, origin, position, reach, life, note, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, CAST(unixepoch('subsec') * 1000 AS INTEGER))
ON CONFLICT (consumer, lane) DO UPDATE SET
	position = CASE WHEN origin = excluded.origin THEN position ELSE excluded.position END,
	reach = CASE WHEN origin = excluded.origin THEN reach ELSE excluded.reach END,
	suspect = CASE WHEN origin <> excluded.origin THEN 0 WHEN life IN ('', excluded.life) THEN suspect ELSE reach END,
	origin = excluded.origin, life = excluded.life, note = excluded.note, at = excluded.at;

-- name: Unclaim
-- What a life has in hand that did not leave a lane in peace. What waits is due as soon as its turn comes.
UPDATE skald_parked INDEXED BY skald_parked_due SET due = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE consumer = ?1 AND claimer <> '' AND claimer <> ?3 AND dead_at IS NULL AND waiting = 0 AND due > CAST(unixepoch('subsec') * 1000 AS INTEGER)
	AND claimer IN (SELECT life FROM skald_spot WHERE consumer = ?1 AND lane = ?2);

-- name: AdvanceSpot
UPDATE skald_spot SET position = ?4, reach = ?5, life = ?6, note = ?7, at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE consumer = ?1 AND lane = ?2 AND note = ?3;

-- name: RewindSpot
UPDATE skald_spot SET position = ?4, note = ?5, at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE consumer = ?1 AND lane = ?2 AND origin = ?3 AND (position > ?4 OR position < 0);
