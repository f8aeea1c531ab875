-- name: Types
SELECT topic, type FROM skald_handled_type WHERE consumer = ?1 ORDER BY topic, type;

-- name: TypesNoted
-- Returns the types with a record of the last 20 s, which need no new record.
SELECT topic, type FROM skald_handled_type WHERE consumer = ?1 AND at >= CAST(unixepoch('subsec') * 1000 AS INTEGER) - 20000;

-- name: NoteType
INSERT INTO skald_handled_type (consumer, topic, type, at) VALUES (?1, ?2, ?3, CAST(unixepoch('subsec') * 1000 AS INTEGER))
ON CONFLICT (consumer, topic, type) DO UPDATE SET at = excluded.at;

-- name: NoteConsumer
INSERT INTO skald_consumer (consumer, heard_at, progress_at)
VALUES (?1, CAST(unixepoch('subsec') * 1000 AS INTEGER), CAST(unixepoch('subsec') * 1000 AS INTEGER))
ON CONFLICT (consumer) DO UPDATE SET heard_at = excluded.heard_at, progress_at = CASE WHEN ?2 THEN excluded.progress_at ELSE progress_at END;

-- name: ForgetTypes
DELETE FROM skald_handled_type WHERE consumer = ?1 AND at < CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?2;

-- name: LeftTypes
-- Lists the types of messages that were left to another build. Such a message has last_at but no first_at; a failed message has both. The host
-- is that of the row with the latest time.
SELECT consumer, topic, type, n, host, coalesce(max(CAST(unixepoch('subsec') * 1000 AS INTEGER) - at, 0), -1) FROM (
	SELECT p.consumer, p.topic, p.type, count(*) AS n, p.last_host AS host, max(p.last_at) AS last_at, t.at
	FROM skald_parked AS p LEFT JOIN skald_handled_type AS t ON t.consumer = p.consumer AND t.topic = p.topic AND t.type = p.type
	WHERE p.dead_at IS NULL AND p.first_at IS NULL AND p.last_at IS NOT NULL
	GROUP BY p.consumer, p.topic, p.type)
ORDER BY consumer, topic, type;
