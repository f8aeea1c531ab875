-- name: Moved
SELECT value FROM skald_setting WHERE name = 'recovery reason';

-- name: NoteMoved
UPDATE skald_setting SET value = ?1 WHERE name = 'recovery reason';

-- name: Rows
SELECT count(*) FROM skald_outbox;

-- name: ForgetAllRelays
DELETE FROM skald_relay;

-- name: SeatShards
UPDATE skald_shard SET base = '', tip = '', seq = 0, owner = NULL, session = NULL, epoch = epoch + 1, token = hex(randomblob(16));
