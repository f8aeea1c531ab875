-- name: Reserve
-- ?6 is the lease in milliseconds.
INSERT INTO skald_reservation AS r (consumer, source, id, fingerprint, token, at, until)
VALUES (?1, ?2, ?3, ?4, ?5, CAST(unixepoch('subsec') * 1000 AS INTEGER), CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?6)
ON CONFLICT (consumer, source, id) DO UPDATE SET fingerprint = excluded.fingerprint, token = excluded.token, at = excluded.at, until = excluded.until
WHERE r.until <= excluded.at;

-- name: FindReservation
SELECT token <> ?4, coalesce(fingerprint, 0), max(until - CAST(unixepoch('subsec') * 1000 AS INTEGER), 0)
FROM skald_reservation WHERE consumer = ?1 AND source = ?2 AND id = ?3;

-- name: Forgotten
SELECT EXISTS (SELECT 1 FROM skald_floor AS f WHERE f.consumer = ?1 AND f.at >= ?2);

-- name: Unreserve
DELETE FROM skald_reservation WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND token = ?4;
