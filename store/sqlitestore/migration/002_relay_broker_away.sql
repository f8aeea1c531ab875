-- A relay whose broker does not answer gives its shards to relays whose broker answers.
ALTER TABLE skald_relay ADD COLUMN broker_away_at INTEGER; -- milliseconds since 1970: since when its broker has not answered; NULL: it answers
ALTER TABLE skald_relay ADD COLUMN yields INTEGER NOT NULL DEFAULT 0; -- it holds no shard while the broker of another relay answers

-- Consumers, relays that own shards, and relays whose broker does not answer.
DROP VIEW skald_progress;
CREATE VIEW skald_progress AS
SELECT 'consumer' AS kind, consumer AS name, strftime('%Y-%m-%dT%H:%M:%fZ', heard / 1000.0, 'unixepoch') AS heard_at,
	max(unixepoch('subsec') - heard / 1000.0, 0) AS heard_seconds,
	strftime('%Y-%m-%dT%H:%M:%fZ', progress_at / 1000.0, 'unixepoch') AS progress_at,
	max(unixepoch('subsec') - progress_at / 1000.0, 0) AS progress_seconds, topics, NULL AS shards, NULL AS broker_away_seconds
FROM (SELECT c.consumer, c.progress_at, max(c.heard_at, coalesce((SELECT max(at) FROM skald_handled_type AS t WHERE t.consumer = c.consumer), 0)) AS heard,
		(SELECT json_group_array(topic) FROM (SELECT DISTINCT topic FROM skald_handled_type AS t WHERE t.consumer = c.consumer ORDER BY topic)) AS topics
	FROM skald_consumer AS c)
UNION ALL
SELECT 'relay', owner, NULL, NULL, strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch'), max(unixepoch('subsec') - at / 1000.0, 0), '[]', n,
	(SELECT max(unixepoch('subsec') - r.broker_away_at / 1000.0, 0) FROM skald_relay AS r
		WHERE r.owner = of.owner AND r.until > unixepoch('subsec') * 1000 AND r.broker_away_at IS NOT NULL)
FROM (SELECT owner, count(*) AS n, max(changed_at) AS at FROM skald_shard WHERE owner IS NOT NULL GROUP BY owner
	UNION ALL
	SELECT r.owner, 0, r.broker_away_at FROM skald_relay AS r WHERE r.until > unixepoch('subsec') * 1000 AND r.broker_away_at IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM skald_shard AS l WHERE l.owner = r.owner)) AS of;
