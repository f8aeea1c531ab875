-- name: Belongings
-- Returns the number of rows of a consumer in each table, and the milliseconds since the last heartbeat of its processes; -1 without a
-- heartbeat. A partition with an owner counts as a heartbeat.
SELECT (SELECT count(*) FROM /*schema*/skald_mark WHERE consumer = $1::text),
	(SELECT count(*) FROM /*schema*/skald_checkpoint WHERE consumer = $1::text AND NOT starts_with(partition, $2::text)),
	(SELECT count(*) FROM /*schema*/skald_checkpoint WHERE consumer = $1::text AND starts_with(partition, $2::text)),
	(SELECT count(*) FROM /*schema*/skald_parked WHERE consumer = $1::text AND dead_at IS NULL),
	(SELECT count(*) FROM /*schema*/skald_parked WHERE consumer = $1::text AND dead_at IS NOT NULL),
	(SELECT count(*) FROM /*schema*/skald_quarantine WHERE consumer = $1::text),
	(SELECT count(*) FROM /*schema*/skald_step WHERE consumer = $1::text),
	(SELECT count(*) FROM /*schema*/skald_floor WHERE consumer = $1::text) + (SELECT count(*) FROM /*schema*/skald_step_floor WHERE consumer = $1::text),
	(SELECT count(*) FROM /*schema*/skald_handled_type WHERE consumer = $1::text),
	CASE WHEN h.at IS NULL THEN -1 ELSE greatest((extract(epoch FROM clock_timestamp() - h.at) * 1000)::bigint, 0) END
FROM (SELECT greatest((SELECT max(at) FROM /*schema*/skald_handled_type WHERE consumer = $1::text),
	(SELECT max(at) FROM /*schema*/skald_checkpoint WHERE consumer = $1::text AND session <> ''),
	(SELECT max(heard_at) FROM /*schema*/skald_consumer WHERE consumer = $1::text)) AS at) AS h;

-- name: LockConsumers
-- Locks both consumers. A process that starts as one of them writes to this table, so it waits. MoveConsumer removes a row that this statement
-- creates.
INSERT INTO /*schema*/skald_consumer AS c (consumer, heard_at, progress_at)
SELECT n, timestamptz 'epoch', timestamptz 'epoch' FROM unnest(ARRAY[$1::text, $2::text]) AS n ORDER BY n
ON CONFLICT (consumer) DO UPDATE SET heard_at = c.heard_at;

-- name: GuardRename
-- Checks that both consumers had no heartbeat for $3 milliseconds. It is a separate statement after LockConsumers, so that its snapshot has
-- every process that registered before.
SELECT /*schema*/skald_require(NOT EXISTS (SELECT FROM /*schema*/skald_mark WHERE consumer = $2::text)
	AND NOT EXISTS (SELECT FROM /*schema*/skald_checkpoint WHERE consumer = $2::text AND starts_with(partition, $4::text))
	AND NOT EXISTS (SELECT FROM /*schema*/skald_parked WHERE consumer = $2::text)
	AND NOT EXISTS (SELECT FROM /*schema*/skald_quarantine WHERE consumer = $2::text)
	AND NOT EXISTS (SELECT FROM /*schema*/skald_step WHERE consumer = $2::text)
	AND NOT EXISTS (SELECT FROM /*schema*/skald_floor WHERE consumer = $2::text)
	AND NOT EXISTS (SELECT FROM /*schema*/skald_step_floor WHERE consumer = $2::text)
	AND NOT EXISTS (SELECT FROM /*schema*/skald_handled_type WHERE consumer IN ($1::text, $2::text) AND at > clock_timestamp() - $3::bigint * interval '1 millisecond')
	AND NOT EXISTS (SELECT FROM /*schema*/skald_checkpoint WHERE consumer IN ($1::text, $2::text) AND session <> '' AND at > clock_timestamp() - $3::bigint * interval '1 millisecond')
	AND NOT EXISTS (SELECT FROM /*schema*/skald_consumer WHERE consumer IN ($1::text, $2::text) AND heard_at > clock_timestamp() - $3::bigint * interval '1 millisecond'),
	'a consumer that nobody uses');

-- name: MoveMarks
UPDATE /*schema*/skald_mark SET consumer = $2::text WHERE consumer = $1::text;

-- name: MoveParked
UPDATE /*schema*/skald_parked SET consumer = $2::text WHERE consumer = $1::text;

-- name: MoveQuarantined
UPDATE /*schema*/skald_quarantine SET consumer = $2::text WHERE consumer = $1::text;

-- name: MoveSteps
UPDATE /*schema*/skald_step SET consumer = $2::text WHERE consumer = $1::text;

-- name: MoveFloor
UPDATE /*schema*/skald_floor SET consumer = $2::text WHERE consumer = $1::text;

-- name: MoveStepFloors
UPDATE /*schema*/skald_step_floor SET consumer = $2::text WHERE consumer = $1::text;

-- name: DropCheckpoints
-- Deletes checkpoints of the new name that the old name also has. The new name has no marks, so it finished no message with these checkpoints.
DELETE FROM /*schema*/skald_checkpoint WHERE consumer = $2::text AND partition IN (SELECT partition FROM /*schema*/skald_checkpoint WHERE consumer = $1::text);

-- name: MoveCheckpoints
UPDATE /*schema*/skald_checkpoint SET consumer = $2::text WHERE consumer = $1::text;

-- name: DropTypes
DELETE FROM /*schema*/skald_handled_type WHERE consumer = $2::text AND (topic, type) IN (SELECT topic, type FROM /*schema*/skald_handled_type WHERE consumer = $1::text);

-- name: MoveTypes
UPDATE /*schema*/skald_handled_type SET consumer = $2::text WHERE consumer = $1::text;

-- name: DropConsumer
DELETE FROM /*schema*/skald_consumer WHERE consumer = $2::text OR consumer = $1::text AND heard_at = timestamptz 'epoch';

-- name: MoveConsumer
UPDATE /*schema*/skald_consumer SET consumer = $2::text WHERE consumer = $1::text;

-- name: NewRun
-- Updates the row that the statement Server reads, so that its xmin changes. Otherwise a process could use cached entries of the old name for
-- the new name.
UPDATE /*schema*/skald_setting SET value = value WHERE name = 'fingerprint key';
