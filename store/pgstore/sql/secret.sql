-- name: Secret
SELECT value FROM /*schema*/skald_setting WHERE name = 'fingerprint key';
