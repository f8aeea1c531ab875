-- name: CountStates
SELECT state, COUNT(*) FROM /*schema*/orders GROUP BY state;

-- name: CountOutbox
SELECT COUNT(*) FROM /*schema*/skald_outbox;

-- name: CountMarks
-- Counts messages only: a key of once.Do or of an HTTP endpoint has no source.
SELECT COUNT(*) FROM /*schema*/skald_mark WHERE source <> '' AND consumer NOT LIKE '%tracker';

-- name: CountTracked
SELECT COUNT(*) FROM /*schema*/skald_mark WHERE consumer LIKE '%tracker';

-- name: CountEnds
-- Dropped messages are also marked as rejected.
SELECT 'rejected', COUNT(*) FROM /*schema*/skald_mark WHERE outcome = 2 AND COALESCE(reason, '') NOT LIKE 'dropped: %'
UNION ALL SELECT action, COUNT(*) FROM /*schema*/skald_audit GROUP BY action
UNION ALL SELECT 'barred', COUNT(*) FROM /*schema*/skald_keys WHERE status = 'barred'
UNION ALL SELECT 'dead', COUNT(*) FROM /*schema*/skald_dead;

-- name: Said
SELECT seq, CAST(id AS TEXT), type, COALESCE(CAST(causation_id AS TEXT), ''), CAST(time AS TEXT)
FROM /*schema*/skald_outbox WHERE key = $1 ORDER BY seq;

-- name: Taken
SELECT status, COALESCE(reason, ''), CAST(at AS TEXT) FROM /*schema*/skald_keys WHERE key = $1 AND consumer NOT LIKE '%tracker';
