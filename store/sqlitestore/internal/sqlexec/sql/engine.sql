-- name: Engine
SELECT sqlite_version();
