-- name: Checkpoints
SELECT partition, origin, position, in_flight_end, crash_suspect, session, stamp, at FROM /*schema*/skald_checkpoint WHERE consumer = $1::text ORDER BY partition;

-- name: CheckpointsLocked
-- Does as Checkpoints, and locks the rows, because OccupyCheckpoints changes them next.
SELECT partition, origin, position, in_flight_end, crash_suspect, session, stamp, at FROM /*schema*/skald_checkpoint WHERE consumer = $1::text ORDER BY partition FOR UPDATE;

-- name: Server
-- Identifies the running server, its database, and the tables in it. If none of the three changed, no commit was lost. Tables that were restored
-- into the same database, or copied into another schema, have another row: its table and its transaction number differ.
SELECT pg_postmaster_start_time(), (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
	coalesce((SELECT tableoid::text || '.' || xmin::text FROM /*schema*/skald_setting WHERE name = 'fingerprint key'), '');

-- name: Database
SELECT c.system_identifier::text, d.oid::bigint, d.datname::text FROM pg_control_system() AS c, pg_database AS d WHERE d.datname = current_database();

-- name: GuardServer
SELECT /*schema*/skald_require($1::timestamptz = pg_postmaster_start_time(), 'the server');

-- name: Unclaim
-- Makes parked messages due that sessions claimed and did not release before they ended. $3 has the partitions of these sessions.
UPDATE /*schema*/skald_parked SET due = clock_timestamp()
WHERE consumer = $1::text AND claimed_by <> '' AND claimed_by <> $2::text AND dead_at IS NULL AND NOT waiting AND due > clock_timestamp()
	AND claimed_by = ANY (ARRAY(SELECT session FROM /*schema*/skald_checkpoint WHERE consumer = $1::text AND partition = ANY ($3::text[])));

-- name: OccupyCheckpoints
INSERT INTO /*schema*/skald_checkpoint AS s (consumer, partition, origin, position, in_flight_end, session, stamp)
SELECT $1::text, p.partition, p.origin, p.position, p.in_flight_end, $2::text, $3::text
FROM unnest($4::text[], $5::text[], $6::bigint[], $7::bigint[]) AS p(partition, origin, position, in_flight_end)
ORDER BY p.partition
ON CONFLICT (consumer, partition) DO UPDATE SET origin = EXCLUDED.origin, session = EXCLUDED.session, stamp = EXCLUDED.stamp, at = clock_timestamp(),
	position = CASE WHEN s.origin = EXCLUDED.origin THEN s.position ELSE EXCLUDED.position END,
	in_flight_end = CASE WHEN s.origin = EXCLUDED.origin THEN s.in_flight_end ELSE EXCLUDED.in_flight_end END,
	crash_suspect = CASE WHEN s.origin <> EXCLUDED.origin THEN 0 WHEN s.session IN ('', EXCLUDED.session) THEN s.crash_suspect ELSE s.in_flight_end END;

-- name: AdvanceCheckpoints
UPDATE /*schema*/skald_checkpoint AS s SET position = p.position, in_flight_end = p.in_flight_end, session = p.session, stamp = $3::text, at = clock_timestamp()
FROM unnest($4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[]) AS p(partition, was, position, in_flight_end, session)
WHERE s.consumer = $1::text AND s.partition = p.partition AND s.stamp = p.was
	AND $2::timestamptz = pg_postmaster_start_time() AND $9::bigint = (SELECT oid::bigint FROM pg_database WHERE datname = current_database())
	AND $10::text = coalesce((SELECT tableoid::text || '.' || xmin::text FROM /*schema*/skald_setting WHERE name = 'fingerprint key'), '');

-- name: RewindCheckpoint
WITH u AS (
	UPDATE /*schema*/skald_checkpoint SET position = $4::bigint, stamp = $5::text, at = clock_timestamp()
	WHERE consumer = $1::text AND partition = $2::text AND origin = $3::text AND (position > $4::bigint OR position < 0)
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM u), 'a checkpoint at a later position');
