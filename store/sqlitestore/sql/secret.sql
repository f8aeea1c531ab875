-- name: Secret
SELECT value FROM skald_setting WHERE name = 'fingerprint key';
