-- Which database the lanes speak of: a copy of it elsewhere must not take their word for its own.

ALTER TABLE /*schema*/skald_lane
	ADD COLUMN system   bigint,  -- the cluster's identifier
	ADD COLUMN timeline integer, -- of the cluster; a failover begins another
	ADD COLUMN database oid;     -- NULL, all three: of a build that did not know them

INSERT INTO /*schema*/skald_setting (name, value) VALUES
	('moved', ''),   -- what a relay saw that must not be
	('reseats', '0'); -- how many are done

-- Where we are. The functions that it asks are executable by every role unless somebody took that away.
CREATE FUNCTION /*schema*/skald_place(OUT system bigint, OUT timeline integer, OUT database oid) LANGUAGE sql VOLATILE AS $$
	SELECT c.system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer, d.oid
	FROM pg_control_system() AS c, pg_database AS d WHERE d.datname = current_database()
$$;

UPDATE /*schema*/skald_lane SET (system, timeline, database) = (SELECT p.system, p.timeline, p.database FROM /*schema*/skald_place() AS p);

-- What is not as the lanes left it, or NULL. Each part reads numbers behind the snapshot that it compares them with.
CREATE FUNCTION /*schema*/skald_moved() RETURNS text LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_sort = off SET plan_cache_mode = force_generic_plan SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
DECLARE
	saw text;
BEGIN
	SELECT value INTO saw FROM /*schema*/skald_setting WHERE name = 'moved' AND value <> '';
	IF saw IS NOT NULL THEN
		RETURN saw;
	END IF;

	SELECT format('lane %s speaks of database %s of cluster %s, this is database %s of cluster %s', l.id, l.database, l.system, p.database, p.system)
	INTO saw
	FROM /*schema*/skald_lane AS l, /*schema*/skald_place() AS p
	WHERE l.system IS DISTINCT FROM p.system OR l.database IS DISTINCT FROM p.database
	ORDER BY l.id LIMIT 1;
	IF saw IS NOT NULL THEN
		IF EXISTS (SELECT FROM /*schema*/skald_tick) OR EXISTS (SELECT FROM /*schema*/skald_lane WHERE base <> '' OR tip <> '')
			OR EXISTS (SELECT FROM (SELECT txid FROM /*schema*/skald_outbox ORDER BY txid DESC LIMIT 1) AS o WHERE o.txid >= pg_snapshot_xmax(pg_current_snapshot())) THEN
			RETURN saw;
		END IF; -- a copy that was never read, and all of whose rows can be: there is nothing to settle
	END IF;

	SELECT format('lane %s has come to tick %s, %s', l.id, split_part(n.tick, '-', 1), CASE
			WHEN t.id IS NULL THEN 'which is not there'
			WHEN t.seq > coalesce(pg_sequence_last_value('/*schema*/skald_outbox_seq_seq'::regclass), 0) THEN 'which saw row ' || t.seq || '; the sequence has not come to it'
			ELSE 'drawn in transaction ' || t.own || '; this database has not come to it' END)
	INTO saw
	FROM /*schema*/skald_lane AS l CROSS JOIN LATERAL (VALUES (l.base), (l.tip)) AS n(tick)
	LEFT JOIN /*schema*/skald_tick AS t ON t.id = nullif(split_part(n.tick, '-', 1), '')::bigint AND t.token = split_part(n.tick, '-', 2)
	WHERE n.tick <> '' AND (t.id IS NULL OR t.own >= pg_snapshot_xmax(pg_current_snapshot())
		OR t.seq > coalesce(pg_sequence_last_value('/*schema*/skald_outbox_seq_seq'::regclass), 0))
	ORDER BY l.id LIMIT 1;
	IF saw IS NOT NULL THEN
		RETURN saw;
	END IF;

	SELECT format('row %s is there, the sequence has come to %s', o.seq, coalesce(pg_sequence_last_value('/*schema*/skald_outbox_seq_seq'::regclass), 0))
	INTO saw
	FROM (SELECT seq FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT 1) AS o
	WHERE o.seq > coalesce(pg_sequence_last_value('/*schema*/skald_outbox_seq_seq'::regclass), 0);
	RETURN saw;
END $$;

-- The name of the place, which a caller that knows it hands in to be spared the look; raises if it is not the one.
CREATE FUNCTION /*schema*/skald_here(known text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	here text;
	saw text;
BEGIN
	SELECT c.system_identifier || '-' || d.oid INTO here
	FROM pg_control_system() AS c, pg_database AS d WHERE d.datname = current_database();
	IF here = known THEN
		RETURN here;
	END IF;
	saw := /*schema*/skald_moved();
	IF saw IS NOT NULL THEN
		RAISE EXCEPTION '%', saw USING ERRCODE = 'SK002';
	END IF;
	RETURN here;
END $$;
