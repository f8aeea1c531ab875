-- name: Ring
-- How time falls on leaves; '' where it was never changed.
SELECT coalesce((SELECT value FROM /*schema*/skald_setting WHERE name = 'outbox ring'), '');

-- name: GuardRing
-- Behind the lock on a leaf: rows that fell on it by a ring that we do not know must not go.
SELECT /*schema*/skald_require(coalesce((SELECT value FROM /*schema*/skald_setting WHERE name = 'outbox ring'), '') = $1::text, 'the ring');
