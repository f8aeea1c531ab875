-- What an operator reads. The views are part of the contract (docs/sql.md): none of them reads the whole outbox.

-- When the retention last looked, and last emptied something; milliseconds since 1970.
CREATE TABLE skald_maintained (
	name       TEXT PRIMARY KEY, -- of the table
	looked_at  INTEGER,
	emptied_at INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO skald_maintained (name) VALUES ('skald_outbox'), ('skald_mark');

-- How far each lane has come: what has a seq up to "walk" is published.
CREATE VIEW skald_position AS
SELECT id AS lane, first_bucket, last_bucket,
	max(CAST(base AS INTEGER), CASE WHEN tip IN ('', base) THEN 0 ELSE min(seq, CAST(tip AS INTEGER)) END) AS walk
FROM skald_lane;

-- Each row that is kept. Of 10 million rows it is cheap for a seq, for a range of seqs, and for ORDER BY seq with LIMIT.
-- A row with no bucket (another language wrote it) is published when every lane is past it.
CREATE VIEW skald_outbox_state AS
SELECT o.seq, o.id, o.topic, o.key, o.key_bytes, o.type, o.time, p.lane,
	CASE WHEN a.seq IS NOT NULL THEN 'aside'
		WHEN o.seq <= coalesce(p.walk, (SELECT min(walk) FROM skald_position)) THEN 'published'
		ELSE 'pending' END AS state,
	NULL AS tick, NULL AS tick_at,
	a.attempts, a.why, strftime('%Y-%m-%dT%H:%M:%fZ', a.due / 1000.0, 'unixepoch') AS due
FROM skald_outbox AS o
LEFT JOIN skald_position AS p ON o.bucket BETWEEN p.first_bucket AND p.last_bucket
LEFT JOIN skald_aside AS a ON a.seq = o.seq;

-- The rows that no relay has published yet: as cheap as they are few.
CREATE VIEW skald_outbox_pending AS
SELECT o.seq, o.id, o.topic, o.key, o.key_bytes, o.type, o.time, p.lane
FROM skald_outbox AS o LEFT JOIN skald_position AS p ON o.bucket BETWEEN p.first_bucket AND p.last_bucket
WHERE o.seq > (SELECT min(walk) FROM skald_position) AND o.seq > coalesce(p.walk, 0)
	AND NOT EXISTS (SELECT 1 FROM skald_aside AS a WHERE a.seq = o.seq);

-- The last 10,000 numbers are looked at row by row. Of a lane that is farther behind, what lies before them is
-- estimated: the distance, times the lane's share of the buckets. lane is NULL for rows with no bucket.
CREATE VIEW skald_lane_pending AS
WITH near (seq) AS (
	SELECT max((SELECT min(walk) FROM skald_position), coalesce((SELECT max(seq) FROM skald_outbox), 0) - 10000)
), few (lane, n, oldest_at) AS (
	SELECT p.lane, count(*), min(o.time)
	FROM skald_outbox AS o LEFT JOIN skald_position AS p ON o.bucket BETWEEN p.first_bucket AND p.last_bucket
	WHERE o.seq > (SELECT seq FROM near) AND o.seq > coalesce(p.walk, 0)
	GROUP BY p.lane
)
SELECT p.lane, coalesce(f.n, 0) + CAST(round(max(near.seq - p.walk, 0) * (p.last_bucket - p.first_bucket + 1) / 1024.0) AS INTEGER) AS pending,
	p.walk >= near.seq AS exact,
	CASE WHEN p.walk >= near.seq THEN f.oldest_at ELSE
		-- The lane's first row behind its place, among a thousand; else anybody's first.
		(SELECT time FROM (SELECT * FROM skald_outbox AS o WHERE o.seq > p.walk ORDER BY o.seq LIMIT 1000)
			ORDER BY bucket BETWEEN p.first_bucket AND p.last_bucket DESC, seq LIMIT 1) END AS oldest_at
FROM skald_position AS p CROSS JOIN near LEFT JOIN few AS f ON f.lane = p.lane
UNION ALL
SELECT NULL, n, 1, oldest_at FROM few WHERE lane IS NULL;

CREATE VIEW skald_lanes AS
SELECT l.id AS lane, l.first_bucket, l.last_bucket, r.owner, l.epoch,
	strftime('%Y-%m-%dT%H:%M:%fZ', r.until / 1000.0, 'unixepoch') AS lease_until, p.pending, p.exact, p.oldest_at
FROM skald_lane AS l JOIN skald_lane_pending AS p ON p.lane = l.id
LEFT JOIN skald_relay AS r ON r.owner = l.owner AND r.life = l.life AND r.until > unixepoch('subsec') * 1000;

CREATE VIEW skald_backlog AS
SELECT sum(pending) AS pending, min(exact) AS exact, min(oldest_at) AS oldest_at,
	max(coalesce(unixepoch('subsec') - unixepoch(min(oldest_at), 'subsec'), 0), 0) AS oldest_seconds,
	(SELECT count(*) FROM skald_aside) AS set_aside
FROM skald_lane_pending;

CREATE VIEW skald_maintenance AS
SELECT m.name, strftime('%Y-%m-%dT%H:%M:%fZ', m.looked_at / 1000.0, 'unixepoch') AS looked_at,
	unixepoch('subsec') - m.looked_at / 1000.0 AS looked_seconds,
	strftime('%Y-%m-%dT%H:%M:%fZ', m.emptied_at / 1000.0, 'unixepoch') AS emptied_at,
	unixepoch('subsec') - m.emptied_at / 1000.0 AS emptied_seconds,
	o.at AS oldest_at, unixepoch('subsec') - unixepoch(o.at, 'subsec') AS oldest_seconds
FROM skald_maintained AS m LEFT JOIN (
	SELECT 'skald_outbox' AS name, (SELECT stored_at FROM skald_outbox ORDER BY seq LIMIT 1) AS at
	UNION ALL
	SELECT 'skald_mark', (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', min(written) / 1000.0, 'unixepoch') FROM skald_mark)
) AS o ON o.name = m.name;
