-- name: LargestRow
SELECT COALESCE(MAX(seq), 0) FROM /*schema*/skald_outbox;

-- name: LatestRow
SELECT COALESCE(MAX((extract(epoch FROM time) * 1000000)::bigint), 0) FROM /*schema*/skald_outbox;

-- name: LastNumber
SELECT last_value FROM /*schema*/skald_outbox_seq_seq;

-- name: LatestTime
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
