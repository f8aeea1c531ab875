-- name: ForgetRelays
DELETE FROM skald_relay WHERE until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) AND owner <> ?1;

-- name: KeepRelay
INSERT INTO skald_relay (owner, life, until) VALUES (?1, ?2, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3)
ON CONFLICT (owner) DO UPDATE SET life = excluded.life, until = excluded.until;

-- name: LeaveRelay
DELETE FROM skald_relay WHERE owner = ?1 AND life = ?2;

-- name: Relays
SELECT owner FROM skald_relay ORDER BY owner;

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
