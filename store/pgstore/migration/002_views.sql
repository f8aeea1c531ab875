-- What an operator reads. The views are part of the contract (docs/sql.md): none of them reads the whole outbox.

-- The first tick that sees a row is found by its seq.
CREATE INDEX skald_tick_seq ON /*schema*/skald_tick (seq, id);

-- When the retention last looked, and last emptied something.
CREATE TABLE /*schema*/skald_maintained (
	name       text PRIMARY KEY, -- of the table
	looked_at  timestamptz,
	emptied_at timestamptz
);
INSERT INTO /*schema*/skald_maintained (name) VALUES ('skald_outbox'), ('skald_mark'), ('skald_mark_timeless');

-- How far each lane has come. Published is what base sees; of what tip sees, if a window is open, what has a seq
-- up to "upto". Behind "walk" nothing is published.
CREATE VIEW /*schema*/skald_position AS
SELECT l.id AS lane, l.first_bucket, l.last_bucket, b.snapshot AS base, b.seq AS base_seq, b.own AS base_own,
	t.snapshot AS tip, t.own AS tip_own, CASE WHEN t.id IS NULL THEN 0 ELSE l.seq END AS upto,
	greatest(b.seq, CASE WHEN t.id IS NULL THEN 0 ELSE l.seq END) AS walk
FROM /*schema*/skald_lane AS l
LEFT JOIN /*schema*/skald_tick AS b ON b.id = nullif(split_part(l.base, '-', 1), '')::bigint AND b.token = split_part(l.base, '-', 2)
LEFT JOIN /*schema*/skald_tick AS t ON l.tip <> l.base AND t.id = nullif(split_part(l.tip, '-', 1), '')::bigint AND t.token = split_part(l.tip, '-', 2);

-- The rows up to a seq that may be pending although others behind them are published: of transactions that were running
-- when a lane's snapshot was drawn. Functions, so that PostgreSQL expects few and compiles nothing; under the owner's
-- rights, as views are.
CREATE FUNCTION /*schema*/skald_early(most bigint) RETURNS SETOF bigint LANGUAGE sql STABLE ROWS 10
SECURITY DEFINER SET search_path = pg_catalog SET jit = off SET enable_seqscan = off AS $$
	WITH s AS (
		SELECT base::text AS snapshot, base_own AS own, base_seq AS seq FROM /*schema*/skald_position WHERE base IS NOT NULL
		UNION SELECT tip::text, tip_own, upto FROM /*schema*/skald_position WHERE tip IS NOT NULL
	), g AS (
		SELECT x AS first, x AS last, max(seq) AS seq FROM s CROSS JOIN LATERAL pg_snapshot_xip(s.snapshot::pg_snapshot) AS x GROUP BY x
		UNION ALL SELECT pg_snapshot_xmax(snapshot::pg_snapshot), own, seq FROM s
	)
	SELECT DISTINCT r.seq FROM g CROSS JOIN LATERAL (
		SELECT o.seq FROM /*schema*/skald_outbox AS o WHERE o.txid BETWEEN g.first AND g.last AND o.seq <= least(g.seq, most) OFFSET 0) AS r
$$;

-- Each row that is kept. Of 10 million rows it is cheap for a seq, for a range of seqs, and for ORDER BY seq with LIMIT.
CREATE VIEW /*schema*/skald_outbox_state AS
SELECT o.seq, o.id, o.topic, o.key, o.key_bytes, o.type, o.time, p.lane,
	CASE WHEN a.seq IS NOT NULL THEN 'aside'
		WHEN (pg_visible_in_snapshot(o.txid, p.base) OR o.seq <= p.upto AND pg_visible_in_snapshot(o.txid, p.tip)) IS TRUE THEN 'published'
		ELSE 'pending' END AS state,
	-- The first tick that sees it: from then on it could be published. NULL: none yet, or it is forgotten.
	(SELECT CASE WHEN t.id = 1 OR t.id > (SELECT min(id) FROM /*schema*/skald_tick) THEN t.id END FROM /*schema*/skald_tick AS t
		WHERE t.seq >= o.seq AND pg_visible_in_snapshot(o.txid, t.snapshot) ORDER BY t.seq, t.id LIMIT 1) AS tick,
	(SELECT CASE WHEN t.id = 1 OR t.id > (SELECT min(id) FROM /*schema*/skald_tick) THEN t.at END FROM /*schema*/skald_tick AS t
		WHERE t.seq >= o.seq AND pg_visible_in_snapshot(o.txid, t.snapshot) ORDER BY t.seq, t.id LIMIT 1) AS tick_at,
	a.attempts, a.why, a.due
FROM /*schema*/skald_outbox AS o
CROSS JOIN LATERAL (SELECT coalesce(o.bucket, (SELECT get_byte(h, 0) % 4 * 256 + get_byte(h, 1)
	FROM (SELECT sha256(coalesce(o.key_bytes, convert_to(coalesce(o.key, o.id::text), 'UTF8'))) AS h) AS s)) AS n OFFSET 0) AS h
JOIN /*schema*/skald_position AS p ON h.n BETWEEN p.first_bucket AND p.last_bucket
LEFT JOIN /*schema*/skald_aside AS a ON a.seq = o.seq;

-- The rows that no relay has published yet, without those set aside: as cheap as they are few. Ranges have two ends:
-- of one with one end PostgreSQL thinks that it is a third of the table.
CREATE VIEW /*schema*/skald_outbox_pending AS
WITH low AS MATERIALIZED (
	SELECT min(walk) AS seq FROM /*schema*/skald_position
), head AS MATERIALIZED (
	SELECT coalesce((SELECT seq FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT 1), 0) AS seq
), early AS MATERIALIZED (
	SELECT n AS seq FROM /*schema*/skald_early((SELECT seq FROM low)) AS n
)
SELECT o.seq, o.id, o.topic, o.key, o.key_bytes, o.type, o.time, p.lane
FROM (
	SELECT o.* FROM early CROSS JOIN LATERAL (SELECT * FROM /*schema*/skald_outbox AS o WHERE o.seq = early.seq OFFSET 0) AS o
	UNION ALL
	SELECT o.* FROM /*schema*/skald_outbox AS o WHERE o.seq > (SELECT seq FROM low) AND o.seq <= (SELECT seq FROM head)
) AS o
CROSS JOIN LATERAL (SELECT coalesce(o.bucket, (SELECT get_byte(h, 0) % 4 * 256 + get_byte(h, 1)
	FROM (SELECT sha256(coalesce(o.key_bytes, convert_to(coalesce(o.key, o.id::text), 'UTF8'))) AS h) AS s)) AS n OFFSET 0) AS h
JOIN /*schema*/skald_position AS p ON h.n BETWEEN p.first_bucket AND p.last_bucket
WHERE NOT (pg_visible_in_snapshot(o.txid, p.base) OR o.seq <= p.upto AND pg_visible_in_snapshot(o.txid, p.tip)) IS TRUE
	AND NOT EXISTS (SELECT FROM /*schema*/skald_aside AS a WHERE a.seq = o.seq);

-- What is pending of each lane: the rows behind a seq, and early ones.
CREATE FUNCTION /*schema*/skald_near(near bigint) RETURNS TABLE (lane integer, n bigint, oldest_at timestamptz) LANGUAGE sql STABLE ROWS 16
SECURITY DEFINER SET search_path = pg_catalog SET jit = off SET enable_seqscan = off AS $$
	SELECT p.lane, count(*), min(o.time)
	FROM (
		SELECT o.* FROM /*schema*/skald_early(near) AS early CROSS JOIN LATERAL (SELECT * FROM /*schema*/skald_outbox AS o WHERE o.seq = early OFFSET 0) AS o
		UNION ALL
		SELECT o.* FROM /*schema*/skald_outbox AS o WHERE o.seq > near
	) AS o
	CROSS JOIN LATERAL (SELECT coalesce(o.bucket, (SELECT get_byte(h, 0) % 4 * 256 + get_byte(h, 1)
		FROM (SELECT sha256(coalesce(o.key_bytes, convert_to(coalesce(o.key, o.id::text), 'UTF8'))) AS h) AS s)) AS n OFFSET 0) AS h
	JOIN /*schema*/skald_position AS p ON h.n BETWEEN p.first_bucket AND p.last_bucket
	WHERE (pg_visible_in_snapshot(o.txid, p.base) OR o.seq <= p.upto AND pg_visible_in_snapshot(o.txid, p.tip)) IS NOT TRUE
		AND (o.seq > near OR o.seq <= p.walk)
	GROUP BY p.lane
$$;

-- When the first row behind a seq was said: the first with one of these buckets among a thousand, else anybody's.
CREATE FUNCTION /*schema*/skald_first(behind bigint, first_bucket integer, last_bucket integer) RETURNS timestamptz LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = pg_catalog SET jit = off SET enable_seqscan = off AS $$
	SELECT o.time FROM (SELECT * FROM /*schema*/skald_outbox AS o WHERE o.seq > behind ORDER BY o.seq LIMIT 1000) AS o
	CROSS JOIN LATERAL (SELECT coalesce(o.bucket, (SELECT get_byte(h, 0) % 4 * 256 + get_byte(h, 1)
		FROM (SELECT sha256(coalesce(o.key_bytes, convert_to(coalesce(o.key, o.id::text), 'UTF8'))) AS h) AS s)) AS n OFFSET 0) AS h
	ORDER BY h.n BETWEEN first_bucket AND last_bucket DESC, o.seq LIMIT 1
$$;

-- The last 10,000 numbers are looked at row by row. Of a lane that is farther behind, what lies before them is
-- estimated: the distance, times the lane's share of the buckets.
CREATE VIEW /*schema*/skald_lanes AS
WITH p AS MATERIALIZED (
	SELECT * FROM /*schema*/skald_position
), near AS MATERIALIZED (
	SELECT greatest((SELECT min(walk) FROM p), coalesce((SELECT seq FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT 1), 0) - 10000) AS seq
)
SELECT p.lane, p.first_bucket, p.last_bucket, r.owner, l.epoch, r.until AS lease_until,
	coalesce(n.n, 0) + round(greatest(near.seq - p.walk, 0)::numeric * (p.last_bucket - p.first_bucket + 1) / 1024)::bigint AS pending,
	p.walk >= near.seq AS exact,
	least(n.oldest_at, CASE WHEN p.walk < near.seq THEN /*schema*/skald_first(p.walk, p.first_bucket, p.last_bucket) END) AS oldest_at
FROM p JOIN /*schema*/skald_lane AS l ON l.id = p.lane CROSS JOIN near
LEFT JOIN /*schema*/skald_near((SELECT seq FROM near)) AS n ON n.lane = p.lane
LEFT JOIN /*schema*/skald_relay AS r ON r.owner = l.owner AND r.life = l.life AND r.until > clock_timestamp();

CREATE VIEW /*schema*/skald_backlog AS
SELECT coalesce(sum(pending), 0)::bigint AS pending, coalesce(bool_and(exact), true) AS exact, min(oldest_at) AS oldest_at,
	coalesce(greatest(extract(epoch FROM clock_timestamp() - min(oldest_at)), 0), 0)::double precision AS oldest_seconds,
	(SELECT count(*) FROM /*schema*/skald_aside) AS set_aside
FROM /*schema*/skald_lanes;

CREATE VIEW /*schema*/skald_maintenance AS
SELECT m.name, m.looked_at, extract(epoch FROM clock_timestamp() - m.looked_at)::double precision AS looked_seconds,
	m.emptied_at, extract(epoch FROM clock_timestamp() - m.emptied_at)::double precision AS emptied_seconds,
	o.at AS oldest_at, extract(epoch FROM clock_timestamp() - o.at)::double precision AS oldest_seconds
FROM /*schema*/skald_maintained AS m LEFT JOIN (
	SELECT 'skald_outbox' AS name, (SELECT time FROM /*schema*/skald_outbox ORDER BY seq LIMIT 1) AS at
	UNION ALL
	-- Any mark of each slot: a slot is as old as its marks are, but for two days.
	SELECT 'skald_mark', (SELECT min(r.at) FROM generate_series(0, (SELECT count(*) FROM pg_inherits WHERE inhparent = '/*schema*/skald_mark'::regclass)) AS n
		CROSS JOIN LATERAL (SELECT at FROM /*schema*/skald_mark WHERE slot = n LIMIT 1) AS r)
	UNION ALL
	SELECT 'skald_mark_timeless', (SELECT min(at) FROM /*schema*/skald_mark_timeless)
) AS o ON o.name = m.name;
