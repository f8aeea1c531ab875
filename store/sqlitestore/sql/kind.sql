-- name: Kinds
SELECT topic, type FROM skald_type WHERE consumer = ?1 ORDER BY topic, type;

-- name: KindsNoted
-- Those that were noted just now.
SELECT topic, type FROM skald_type WHERE consumer = ?1 AND at >= CAST(unixepoch('subsec') * 1000 AS INTEGER) - 20000;

-- name: NoteKind
INSERT INTO skald_type (consumer, topic, type, at) VALUES (?1, ?2, ?3, CAST(unixepoch('subsec') * 1000 AS INTEGER))
ON CONFLICT (consumer, topic, type) DO UPDATE SET at = excluded.at;

-- name: ForgetKinds
DELETE FROM skald_type WHERE consumer = ?1 AND at < CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?2;

-- name: LeftKinds
-- Of what failed both times are known, of what was left to another build only the last. The host is of the row that has the maximum.
SELECT consumer, topic, type, n, host, coalesce(max(CAST(unixepoch('subsec') * 1000 AS INTEGER) - at, 0), -1) FROM (
	SELECT p.consumer, p.topic, p.type, count(*) AS n, p.last_host AS host, max(p.last_at) AS last_at, t.at
	FROM skald_parked AS p LEFT JOIN skald_type AS t ON t.consumer = p.consumer AND t.topic = p.topic AND t.type = p.type
	WHERE p.dead_at IS NULL AND p.first_at IS NULL AND p.last_at IS NOT NULL
	GROUP BY p.consumer, p.topic, p.type)
ORDER BY consumer, topic, type;
