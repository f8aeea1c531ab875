-- name: Checkpoints
SELECT partition, origin, position, in_flight_end, crash_suspect, session, stamp, at FROM skald_checkpoint WHERE consumer = ?1 ORDER BY partition;

-- name: OccupyCheckpoint
INSERT INTO skald_checkpoint (consumer, partition, origin, position, in_flight_end, session, stamp, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, CAST(unixepoch('subsec') * 1000 AS INTEGER))
ON CONFLICT (consumer, partition) DO UPDATE SET
	position = CASE WHEN origin = excluded.origin THEN position ELSE excluded.position END,
	in_flight_end = CASE WHEN origin = excluded.origin THEN in_flight_end ELSE excluded.in_flight_end END,
	crash_suspect = CASE WHEN origin <> excluded.origin THEN 0 WHEN session IN ('', excluded.session) THEN crash_suspect ELSE in_flight_end END,
	origin = excluded.origin, session = excluded.session, stamp = excluded.stamp, at = excluded.at;

-- name: Unclaim
-- Makes parked messages due that a session claimed and did not release before it ended, for a partition of that session. Waiting messages are
-- not due until they are the first of their keys.
UPDATE skald_parked INDEXED BY skald_parked_due SET due = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE consumer = ?1 AND claimed_by <> '' AND claimed_by <> ?3 AND dead_at IS NULL AND waiting = 0 AND due > CAST(unixepoch('subsec') * 1000 AS INTEGER)
	AND claimed_by IN (SELECT session FROM skald_checkpoint WHERE consumer = ?1 AND partition = ?2);

-- name: AdvanceCheckpoint
UPDATE skald_checkpoint SET position = ?4, in_flight_end = ?5, session = ?6, stamp = ?7, at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE consumer = ?1 AND partition = ?2 AND stamp = ?3;

-- name: RewindCheckpoint
UPDATE skald_checkpoint SET position = ?4, stamp = ?5, at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE consumer = ?1 AND partition = ?2 AND origin = ?3 AND (position > ?4 OR position < 0);
