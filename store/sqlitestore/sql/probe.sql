-- name: ProbeRead
SELECT count(*) FROM sqlite_schema;
