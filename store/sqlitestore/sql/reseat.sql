-- name: Moved
SELECT value FROM skald_setting WHERE name = 'moved';

-- name: NoteMoved
UPDATE skald_setting SET value = ?1 WHERE name = 'moved';

-- name: Rows
SELECT count(*) FROM skald_outbox;

-- name: ForgetAllRelays
DELETE FROM skald_relay;

-- name: SeatLanes
UPDATE skald_lane SET base = '', tip = '', seq = 0, owner = NULL, life = NULL, epoch = epoch + 1, token = hex(randomblob(16));
