-- name: Belongings
-- Returns the number of rows of a consumer in each table, and the milliseconds since the last heartbeat of its processes; -1 without a
-- heartbeat. A partition with an owner counts as a heartbeat.
SELECT (SELECT count(*) FROM skald_mark WHERE consumer = ?1),
	(SELECT count(*) FROM skald_checkpoint WHERE consumer = ?1 AND instr(partition, ?2) <> 1),
	(SELECT count(*) FROM skald_checkpoint WHERE consumer = ?1 AND instr(partition, ?2) = 1),
	(SELECT count(*) FROM skald_parked WHERE consumer = ?1 AND dead_at IS NULL),
	(SELECT count(*) FROM skald_parked WHERE consumer = ?1 AND dead_at IS NOT NULL),
	(SELECT count(*) FROM skald_quarantine WHERE consumer = ?1),
	(SELECT count(*) FROM skald_step WHERE consumer = ?1),
	(SELECT count(*) FROM skald_floor WHERE consumer = ?1) + (SELECT count(*) FROM skald_step_floor WHERE consumer = ?1),
	(SELECT count(*) FROM skald_handled_type WHERE consumer = ?1),
	coalesce((SELECT max(CAST(unixepoch('subsec') * 1000 AS INTEGER) - max(at), 0) FROM (
		SELECT at FROM skald_handled_type WHERE consumer = ?1
		UNION ALL SELECT at FROM skald_checkpoint WHERE consumer = ?1 AND session <> ''
		UNION ALL SELECT heard_at FROM skald_consumer WHERE consumer = ?1)), -1);

-- name: MoveMarks
UPDATE skald_mark SET consumer = ?2 WHERE consumer = ?1;

-- name: MoveParked
UPDATE skald_parked SET consumer = ?2 WHERE consumer = ?1;

-- name: MoveQuarantined
UPDATE skald_quarantine SET consumer = ?2 WHERE consumer = ?1;

-- name: MoveSteps
UPDATE skald_step SET consumer = ?2 WHERE consumer = ?1;

-- name: MoveFloor
UPDATE skald_floor SET consumer = ?2 WHERE consumer = ?1;

-- name: MoveStepFloors
UPDATE skald_step_floor SET consumer = ?2 WHERE consumer = ?1;

-- name: DropCheckpoints
-- Deletes checkpoints of the new name that the old name also has. The new name has no marks, so it finished no message with these checkpoints.
DELETE FROM skald_checkpoint WHERE consumer = ?2 AND partition IN (SELECT partition FROM skald_checkpoint WHERE consumer = ?1);

-- name: MoveCheckpoints
UPDATE skald_checkpoint SET consumer = ?2 WHERE consumer = ?1;

-- name: DropTypes
DELETE FROM skald_handled_type WHERE consumer = ?2 AND (topic, type) IN (SELECT topic, type FROM skald_handled_type WHERE consumer = ?1);

-- name: MoveTypes
UPDATE skald_handled_type SET consumer = ?2 WHERE consumer = ?1;

-- name: DropConsumer
DELETE FROM skald_consumer WHERE consumer = ?2 AND EXISTS (SELECT 1 FROM skald_consumer WHERE consumer = ?1);

-- name: MoveConsumer
UPDATE skald_consumer SET consumer = ?2 WHERE consumer = ?1;
