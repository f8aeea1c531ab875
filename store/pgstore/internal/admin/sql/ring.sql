-- name: Ring
-- The ring; '' if it was never changed.
SELECT coalesce((SELECT value FROM /*schema*/skald_setting WHERE name = 'outbox ring'), '');

-- name: GuardRing
-- After the lock of a leaf: rows that were written with an unknown ring must stay.
SELECT /*schema*/skald_require(coalesce((SELECT value FROM /*schema*/skald_setting WHERE name = 'outbox ring'), '') = $1::text, 'the ring');
