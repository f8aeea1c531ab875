-- name: Probe
SELECT pg_catalog.pg_is_in_recovery();
