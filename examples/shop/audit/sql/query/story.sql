-- name: CountStates
SELECT state, COUNT(*) FROM orders GROUP BY state;

-- name: CountOutbox
SELECT COUNT(*) FROM skald_outbox;

-- name: CountMarks
SELECT COUNT(*) FROM skald_mark;

-- name: Said
SELECT seq, CAST(id AS TEXT), type, COALESCE(CAST(causation_id AS TEXT), ''), CAST(time AS TEXT)
FROM skald_outbox WHERE key = $1 ORDER BY seq;

-- name: Taken
SELECT outcome, COALESCE(reason, ''), CAST(at AS TEXT) FROM skald_mark WHERE CAST(id AS TEXT) = $1;
