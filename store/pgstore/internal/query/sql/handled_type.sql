-- name: Types
SELECT topic, type FROM /*schema*/skald_handled_type WHERE consumer = $1::text ORDER BY topic COLLATE "C", type COLLATE "C";

-- name: NoteTypes
-- A type that was recorded just now stays unchanged, because many processes record the same one.
INSERT INTO /*schema*/skald_handled_type AS t (consumer, topic, type)
SELECT $1::text, k.topic, k.type FROM unnest($2::text[], $3::text[]) AS k(topic, type) ORDER BY k.topic, k.type
ON CONFLICT (consumer, topic, type) DO UPDATE SET at = clock_timestamp() WHERE t.at < clock_timestamp() - interval '20 s';

-- name: NoteConsumer
-- A consumer that was recorded just now stays unchanged, unless it made progress: many processes record it.
INSERT INTO /*schema*/skald_consumer AS c (consumer) VALUES ($1::text)
ON CONFLICT (consumer) DO UPDATE SET heard_at = clock_timestamp(), progress_at = CASE WHEN $2::boolean THEN clock_timestamp() ELSE c.progress_at END
WHERE c.heard_at < clock_timestamp() - interval '20 s' OR $2::boolean AND c.progress_at < clock_timestamp() - interval '20 s';

-- name: ForgetTypes
-- A type that another process records at this moment stays.
DELETE FROM /*schema*/skald_handled_type WHERE (consumer, topic, type) IN (
	SELECT consumer, topic, type FROM /*schema*/skald_handled_type
	WHERE consumer = $1::text AND at < clock_timestamp() - $2::bigint * interval '1 microsecond' FOR UPDATE SKIP LOCKED);

-- name: LeftTypes
-- A failed message has two times; a message that was left to another build has only the last.
SELECT p.consumer, p.topic, p.type, count(*), (array_agg(p.last_host ORDER BY p.last_at DESC))[1],
	CASE WHEN t.at IS NULL THEN -1 ELSE greatest(round(extract(epoch FROM clock_timestamp() - t.at) * 1000), 0)::bigint END
FROM /*schema*/skald_parked AS p
LEFT JOIN /*schema*/skald_handled_type AS t ON t.consumer = p.consumer AND t.topic = p.topic AND t.type = p.type
WHERE p.dead_at IS NULL AND p.first_at IS NULL AND p.last_at IS NOT NULL
GROUP BY p.consumer, p.topic, p.type, t.at ORDER BY p.consumer COLLATE "C", p.topic COLLATE "C", p.type COLLATE "C";
