-- name: Types
SELECT topic, type FROM /*schema*/skald_handled_type WHERE consumer = $1::text ORDER BY topic COLLATE "C", type COLLATE "C";

-- name: NoteTypes
-- Records the types that a process handles. It does not update a type with a recent record, because many processes record the same types.
INSERT INTO /*schema*/skald_handled_type AS t (consumer, topic, type)
SELECT $1::text, k.topic, k.type FROM unnest($2::text[], $3::text[]) AS k(topic, type) ORDER BY k.topic, k.type
ON CONFLICT (consumer, topic, type) DO UPDATE SET at = clock_timestamp() WHERE t.at < clock_timestamp() - interval '20 s';

-- name: NoteConsumer
-- Records a heartbeat. It does not update a consumer with a recent heartbeat, unless it made progress, because many processes send heartbeats.
INSERT INTO /*schema*/skald_consumer AS c (consumer) VALUES ($1::text)
ON CONFLICT (consumer) DO UPDATE SET heard_at = clock_timestamp(), progress_at = CASE WHEN $2::boolean THEN clock_timestamp() ELSE c.progress_at END
WHERE c.heard_at < clock_timestamp() - interval '20 s' OR $2::boolean AND c.progress_at < clock_timestamp() - interval '20 s';

-- name: ForgetTypes
-- Deletes types that no process has recorded for some time. It skips a type that another process is recording.
DELETE FROM /*schema*/skald_handled_type WHERE (consumer, topic, type) IN (
	SELECT consumer, topic, type FROM /*schema*/skald_handled_type
	WHERE consumer = $1::text AND at < clock_timestamp() - $2::bigint * interval '1 microsecond' FOR UPDATE SKIP LOCKED);

-- name: LeftTypes
-- Lists the types of messages that were left to another build. Such a message has last_at but no first_at; a failed message has both.
SELECT p.consumer, p.topic, p.type, count(*), (array_agg(p.last_host ORDER BY p.last_at DESC))[1],
	CASE WHEN t.at IS NULL THEN -1 ELSE greatest(round(extract(epoch FROM clock_timestamp() - t.at) * 1000), 0)::bigint END
FROM /*schema*/skald_parked AS p
LEFT JOIN /*schema*/skald_handled_type AS t ON t.consumer = p.consumer AND t.topic = p.topic AND t.type = p.type
WHERE p.dead_at IS NULL AND p.first_at IS NULL AND p.last_at IS NOT NULL
GROUP BY p.consumer, p.topic, p.type, t.at ORDER BY p.consumer COLLATE "C", p.topic COLLATE "C", p.type COLLATE "C";
