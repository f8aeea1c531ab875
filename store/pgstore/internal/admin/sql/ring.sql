-- name: Ring
-- Returns the rings as JSON; '' if the ring was never resized.
SELECT coalesce((SELECT value FROM /*schema*/skald_setting WHERE name = 'outbox ring'), '');

-- name: GuardRing
-- Runs after the lock of a leaf, and fails if the ring has changed: retention must not delete rows of a ring that it does not know.
SELECT /*schema*/skald_require(coalesce((SELECT value FROM /*schema*/skald_setting WHERE name = 'outbox ring'), '') = $1::text, 'the ring');
