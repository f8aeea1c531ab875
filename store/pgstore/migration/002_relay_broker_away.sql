-- A relay without an answer from its broker gives its shards to relays that have one.
ALTER TABLE /*schema*/skald_relay ADD COLUMN broker_away_at timestamptz, -- since when its broker has not answered; NULL: it answers
	ADD COLUMN yields boolean NOT NULL DEFAULT false; -- true: it releases its shards while the broker of another relay answers

-- Relays that own shards, including dead ones, and relays without an answer from their broker.
CREATE OR REPLACE VIEW /*schema*/skald_progress AS
SELECT 'consumer' AS kind, c.consumer AS name, h.at AS heard_at,
	greatest(extract(epoch FROM clock_timestamp() - h.at), 0)::double precision AS heard_seconds, c.progress_at,
	greatest(extract(epoch FROM clock_timestamp() - c.progress_at), 0)::double precision AS progress_seconds,
	t.topics, NULL::integer AS shards, NULL::double precision AS broker_away_seconds
FROM /*schema*/skald_consumer AS c
CROSS JOIN LATERAL (SELECT max(at) AS at, coalesce(array_agg(DISTINCT topic), '{}') AS topics FROM /*schema*/skald_handled_type WHERE consumer = c.consumer) AS t
CROSS JOIN LATERAL (SELECT greatest(c.heard_at, t.at) AS at) AS h
UNION ALL
SELECT 'relay', coalesce(s.owner, r.owner), NULL, NULL, coalesce(s.at, r.broker_away_at),
	greatest(extract(epoch FROM clock_timestamp() - coalesce(s.at, r.broker_away_at)), 0)::double precision, '{}', coalesce(s.n, 0),
	greatest(extract(epoch FROM clock_timestamp() - r.broker_away_at), 0)::double precision
FROM (SELECT owner, count(*)::integer AS n, max(changed_at) AS at FROM /*schema*/skald_shard WHERE owner IS NOT NULL GROUP BY owner) AS s
FULL JOIN (SELECT owner, broker_away_at FROM /*schema*/skald_relay WHERE until > clock_timestamp() AND broker_away_at IS NOT NULL) AS r
	ON r.owner = s.owner;
