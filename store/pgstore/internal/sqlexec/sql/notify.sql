-- name: Notify
SELECT pg_notify($1::text, $2::text);

-- name: Listen
LISTEN skald_outbox;
