-- name: Reserve
-- Reserves a key for the caller with the token $5. $7 is the time in the ID, in milliseconds; 0 without a time.
INSERT INTO /*schema*/skald_reservation AS r (consumer, source, id, fingerprint, token, until)
SELECT $1::text, $2::text, $3::text, $4::bigint, $5::text, clock_timestamp() + $6::bigint * interval '1 microsecond'
WHERE NOT EXISTS (SELECT FROM /*schema*/skald_mark AS m WHERE m.consumer = $1::text AND m.source = $2::text AND m.id = $3::text)
	AND NOT EXISTS (SELECT FROM /*schema*/skald_floor AS f WHERE f.consumer = $1::text AND $7::bigint > 0 AND f.at >= to_timestamp($7::bigint / 1000.0))
ON CONFLICT (consumer, source, id) DO UPDATE SET fingerprint = excluded.fingerprint, token = excluded.token, at = clock_timestamp(), until = excluded.until
WHERE r.until <= clock_timestamp();

-- name: UnreserveDone
-- Runs after FindMark, and deletes the reservation if the key has a mark. A rival that this transaction waited for may have finished the key,
-- and only a new snapshot has that mark.
DELETE FROM /*schema*/skald_reservation AS r WHERE r.consumer = $1::text AND r.source = $2::text AND r.id = $3::text AND r.token = $4::text
	AND EXISTS (SELECT FROM /*schema*/skald_mark AS m WHERE m.consumer = $1::text AND m.source = $2::text AND m.id = $3::text);

-- name: FindReservation
SELECT r.token = $4::text, coalesce(r.fingerprint, 0), greatest(extract(epoch FROM r.until - clock_timestamp()) * 1000, 0)::bigint
FROM /*schema*/skald_reservation AS r WHERE r.consumer = $1::text AND r.source = $2::text AND r.id = $3::text;

-- name: GuardReservation
WITH d AS (
	DELETE FROM /*schema*/skald_reservation AS r WHERE r.consumer = $1::text AND r.source = $2::text AND r.id = $3::text AND r.token = $4::text
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM d), 'a reservation');

-- name: DeleteReservations
-- Deletes reservations that expired a day ago.
DELETE FROM /*schema*/skald_reservation WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM /*schema*/skald_reservation WHERE until < clock_timestamp() - interval '1 day' LIMIT 5000));

-- name: CountReservations
-- Counts the reservations of each consumer, up to a limit of rows. The role of an app may read the table.
SELECT r.consumer, count(*) FILTER (WHERE r.until > clock_timestamp()), count(*) FILTER (WHERE r.until <= clock_timestamp())
FROM (SELECT consumer, until FROM /*schema*/skald_reservation LIMIT 10000) AS r
GROUP BY r.consumer ORDER BY r.consumer COLLATE "C";
