-- Messages that a consumer failed on, and those of their keys behind them: parked until their turn comes, or dead letters.
-- Of a key (of any topic) the first by place is tried; those behind it wait.
CREATE TABLE /*schema*/skald_parked (
	place       bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY, -- the order of arrival
	consumer    text NOT NULL,
	source      text NOT NULL,
	id          text NOT NULL,
	turn        bigint NOT NULL, -- the advisory lock of its key
	key         bytea, -- NULL: it waits for nobody, and nobody for it
	topic       text NOT NULL,
	type        text NOT NULL,
	data        bytea, -- the payload as it came; NULL: a tombstone
	envelope    bytea NOT NULL, -- all else of the message, as JSON
	bytes       bigint NOT NULL, -- of key and data
	lane        text NOT NULL, -- where it came from at the broker
	position    bigint NOT NULL,
	fault       text NOT NULL, -- why its envelope could not be read
	attempts    integer NOT NULL, -- that failed and were charged; 0: it only waits
	due         timestamptz NOT NULL, -- when to try it, once it is the first of its key
	waiting     boolean NOT NULL, -- others of its key are before it
	holds       boolean NOT NULL, -- the messages of its key behind it wait for it
	since       timestamptz NOT NULL DEFAULT clock_timestamp(),
	first_at    timestamptz,
	first_error text NOT NULL,
	first_host  text NOT NULL,
	last_at     timestamptz,
	last_error  text NOT NULL,
	last_host   text NOT NULL,
	dead_at     timestamptz, -- it is a dead letter
	kind        text NOT NULL, -- why: attempts, age, malformed, permanent, ...
	fingerprint text NOT NULL, -- equal for failures of one kind
	stack       text NOT NULL, -- of a panic
	version     text NOT NULL, -- of the program
	nth         bigint NOT NULL, -- running number and bytes within the key: what lies between two rows is a subtraction
	running     bigint NOT NULL,
	erased_at   timestamptz
);
CREATE UNIQUE INDEX skald_parked_identity ON /*schema*/skald_parked (consumer, source, id);
CREATE INDEX skald_parked_due ON /*schema*/skald_parked (consumer, due) WHERE dead_at IS NULL AND NOT waiting;
CREATE INDEX skald_parked_key ON /*schema*/skald_parked (consumer, key, place) WHERE key IS NOT NULL AND holds;
CREATE INDEX skald_parked_front ON /*schema*/skald_parked (consumer, key, place) WHERE key IS NOT NULL AND holds AND NOT waiting;
CREATE INDEX skald_parked_dead ON /*schema*/skald_parked (consumer, fingerprint, place) WHERE dead_at IS NOT NULL;
CREATE INDEX skald_parked_failed ON /*schema*/skald_parked (consumer, place) WHERE attempts > 0 AND dead_at IS NULL;

-- What operators did to kept messages.
CREATE TABLE /*schema*/skald_audit (
	seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at       timestamptz NOT NULL DEFAULT clock_timestamp(),
	who      text NOT NULL,
	why      text NOT NULL,
	what     text NOT NULL, -- redrive, release, drop, import
	consumer text NOT NULL,
	source   text NOT NULL,
	id       text NOT NULL
);

-- Locks a key of a consumer until the transaction ends, then says how a message stands: 0 it may be taken, -3 it is
-- parked, -4 it is a dead letter, -5 others of its key are before it, -6 (with attempts) it is not as it was claimed.
-- The second statement has a snapshot of its own, behind the lock.
CREATE FUNCTION /*schema*/skald_turn(turn bigint, consumer text, source text, id text, key bytea, attempts integer) RETURNS smallint
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
	mine bigint;
	tries integer;
	first bigint;
BEGIN
	PERFORM pg_advisory_xact_lock($1);
	SELECT (SELECT p.place FROM /*schema*/skald_parked AS p WHERE p.consumer = $2 AND p.source = $3 AND p.id = $4),
		(SELECT p.place FROM /*schema*/skald_parked AS p WHERE p.consumer = $2 AND p.key = $5 AND p.holds ORDER BY p.place LIMIT 1)
	INTO mine, first;
	IF mine IS NULL AND first IS NULL THEN
		RETURN CASE WHEN $6 IS NULL THEN 0 ELSE -6 END;
	ELSIF mine IS NOT NULL THEN
		SELECT CASE WHEN p.dead_at IS NULL THEN p.attempts END INTO tries FROM /*schema*/skald_parked AS p WHERE p.place = mine;
	END IF;
	RETURN CASE
		WHEN $6 IS NOT NULL THEN CASE WHEN tries = $6 AND (first IS NULL OR first = mine) THEN 0 ELSE -6 END
		WHEN mine IS NULL THEN -5
		WHEN tries IS NULL THEN -4
		ELSE -3 END;
END $$;

-- How much is kept for each consumer.
CREATE VIEW /*schema*/skald_keeping AS
SELECT consumer, count(*) FILTER (WHERE dead_at IS NULL) AS parked, count(*) FILTER (WHERE dead_at IS NOT NULL) AS dead,
	coalesce(sum(bytes) FILTER (WHERE dead_at IS NULL), 0)::bigint AS bytes, min(since) FILTER (WHERE dead_at IS NULL) AS oldest_at,
	coalesce(greatest(extract(epoch FROM clock_timestamp() - min(since) FILTER (WHERE dead_at IS NULL)), 0), 0)::double precision AS oldest_seconds
FROM /*schema*/skald_parked GROUP BY consumer;

-- Dead letters, without their payloads.
CREATE VIEW /*schema*/skald_dead AS
SELECT place, consumer, source, id, topic, type, key, attempts, dead_at, kind, fingerprint, last_error, last_host, first_at, first_error,
	version, holds AND key IS NOT NULL AS holds_key
FROM /*schema*/skald_parked WHERE dead_at IS NOT NULL;
