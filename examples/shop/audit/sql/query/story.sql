-- name: CountStates
SELECT state, COUNT(*) FROM /*schema*/orders GROUP BY state;

-- name: CountOutbox
SELECT COUNT(*) FROM /*schema*/skald_outbox;

-- name: CountMarks
SELECT COUNT(*) FROM /*schema*/skald_mark;

-- name: Said
SELECT seq, CAST(id AS TEXT), type, COALESCE(CAST(causation_id AS TEXT), ''), CAST(time AS TEXT)
FROM /*schema*/skald_outbox WHERE key = $1 ORDER BY seq;

-- name: Taken
SELECT outcome, COALESCE(reason, ''), CAST(at AS TEXT) FROM /*schema*/skald_mark WHERE CAST(id AS TEXT) = $1;
