-- name: FindEntity
SELECT version FROM skald_entity WHERE space = ?1 AND key = ?2;

-- name: ListReserved
SELECT consumer, source, id, max(CAST(unixepoch('subsec') * 1000 AS INTEGER) - at, 0), max(until - CAST(unixepoch('subsec') * 1000 AS INTEGER), 0)
FROM skald_reservation WHERE ?1 = '' OR consumer = ?1 ORDER BY consumer, source, id LIMIT ?2;
