-- name: ForgetRelays
DELETE FROM skald_relay WHERE until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) AND owner <> ?1;

-- name: KeepRelay
-- It waits if others hold all there is, or will.
INSERT INTO skald_relay (owner, life, until, waits)
SELECT ?1, ?2, CAST(unixepoch('subsec') * 1000 AS INTEGER) + CASE WHEN w.waits THEN ?4 ELSE ?3 END, w.waits
FROM (SELECT (SELECT count(*) FROM skald_relay WHERE NOT waits AND owner <> ?1) >= (SELECT count(*) FROM skald_lane)
	AND NOT EXISTS (SELECT 1 FROM skald_lane WHERE owner = ?1) AS waits) AS w
WHERE true
ON CONFLICT (owner) DO UPDATE SET life = excluded.life, until = excluded.until, waits = excluded.waits;

-- name: LeaveRelay
DELETE FROM skald_relay WHERE owner = ?1 AND life = ?2;

-- name: Relays
SELECT owner FROM skald_relay WHERE NOT waits ORDER BY owner;

-- name: Waiting
SELECT count(*) FROM skald_relay WHERE waits;

-- name: LeaveLanes
UPDATE skald_lane SET owner = NULL, life = NULL WHERE owner = ?1 AND life = ?2;

-- name: FreeLane
UPDATE skald_lane SET owner = NULL, life = NULL WHERE id = ?1 AND owner = ?2;

-- name: Lanes
SELECT id, first_bucket, last_bucket, epoch, token, base, tip, seq, incarnation, coalesce(owner, ''), coalesce(life, '')
FROM skald_lane ORDER BY id;

-- name: TakeLane
UPDATE skald_lane SET owner = ?2, life = ?3, token = ?4, epoch = epoch + 1 WHERE id = ?1 RETURNING epoch;

-- name: KeepProgress
-- The guard is on the row that is written.
UPDATE skald_lane SET base = coalesce(?4, base), tip = coalesce(?5, tip), seq = coalesce(?6, seq), incarnation = coalesce(?7, incarnation)
WHERE id = ?1 AND epoch = ?2 AND token = ?3 AND owner IS NOT NULL;
