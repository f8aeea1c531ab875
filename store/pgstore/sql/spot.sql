-- name: Spots
SELECT lane, origin, position, reach, suspect, life, note, at FROM /*schema*/skald_spot WHERE consumer = $1::text ORDER BY lane;

-- name: SpotsLocked
-- As they stood before somebody occupies them.
SELECT lane, origin, position, reach, suspect, life, note, at FROM /*schema*/skald_spot WHERE consumer = $1::text ORDER BY lane FOR UPDATE;

-- name: Server
-- Its life, and the database on it: where both are the same, what was committed is there.
SELECT pg_postmaster_start_time(), (SELECT oid::bigint FROM pg_database WHERE datname = current_database());

-- name: GuardServer
SELECT /*schema*/skald_guard($1::timestamptz = pg_postmaster_start_time(), 'the server');

-- name: Unclaim
-- What lives have in hand that did not leave these lanes in peace.
UPDATE /*schema*/skald_parked SET due = clock_timestamp()
WHERE consumer = $1::text AND claimer <> '' AND claimer <> $2::text AND dead_at IS NULL AND NOT waiting AND due > clock_timestamp()
	AND claimer = ANY (ARRAY(SELECT life FROM /*schema*/skald_spot WHERE consumer = $1::text AND lane = ANY ($3::text[])));

-- name: OccupySpots
INSERT INTO /*schema*/skald_spot AS s (consumer, lane, origin, position, reach, life, note)
SELECT $1::text, p.lane, p.origin, p.position, p.reach, $2::text, $3::text
FROM unnest($4::text[], $5::text[], $6::bigint[], $7::bigint[]) AS p(lane, origin, position, reach)
ORDER BY p.lane
ON CONFLICT (consumer, lane) DO UPDATE SET origin = EXCLUDED.origin, life = EXCLUDED.life, note = EXCLUDED.note, at = clock_timestamp(),
	position = CASE WHEN s.origin = EXCLUDED.origin THEN s.position ELSE EXCLUDED.position END,
	reach = CASE WHEN s.origin = EXCLUDED.origin THEN s.reach ELSE EXCLUDED.reach END,
	suspect = CASE WHEN s.origin <> EXCLUDED.origin THEN 0 WHEN s.life IN ('', EXCLUDED.life) THEN s.suspect ELSE s.reach END;

-- name: AdvanceSpots
UPDATE /*schema*/skald_spot AS s SET position = p.position, reach = p.reach, life = p.life, note = $3::text, at = clock_timestamp()
FROM unnest($4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[]) AS p(lane, was, position, reach, life)
WHERE s.consumer = $1::text AND s.lane = p.lane AND s.note = p.was
	AND $2::timestamptz = pg_postmaster_start_time() AND $9::bigint = (SELECT oid::bigint FROM pg_database WHERE datname = current_database());

-- name: RewindSpot
WITH u AS (
	UPDATE /*schema*/skald_spot SET position = $4::bigint, note = $5::text, at = clock_timestamp()
	WHERE consumer = $1::text AND lane = $2::text AND origin = $3::text AND (position > $4::bigint OR position < 0)
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM u), 'a lane that is farther');
