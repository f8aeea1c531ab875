-- The tables, functions and views of Skald in PostgreSQL 13 or newer, database encoding UTF8.
--
-- The table skald_outbox is a stable interface. Any language, a trigger or psql can publish a complete, ordered message:
--   INSERT INTO skald_outbox (topic, key, type, data) VALUES ('orders', '42', 'order.placed', '{"id":42}')
-- The views are a stable interface, too. docs/sql.md describes both.
--
-- Each function sets its search_path: pg_catalog first, pg_temp last. Without pg_temp in the path, PostgreSQL would look
-- there first for tables and types, and a caller could replace them.

-- 1. Settings, and functions that other parts use

CREATE TABLE /*schema*/skald_setting (
	name  text PRIMARY KEY,
	value text NOT NULL
);
INSERT INTO /*schema*/skald_setting (name, value) VALUES
	('shard lock', ''),   -- locked while shards are assigned
	('recovery reason', ''),   -- the reason why relays stopped; empty: none. See skald_recovery_reason
	('recoveries', '0'), -- the number of recoveries so far
	('fingerprint key', encode(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'hex')); -- the key of the HMAC in skald_mark.fingerprint

-- A relay may UPDATE skald_setting only to lock the row 'shard lock' and to write 'recovery reason'. The owner may change all rows.
CREATE FUNCTION /*schema*/skald_setting_protected() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF NOT pg_has_role(current_user, (SELECT c.relowner FROM pg_class AS c WHERE c.oid = TG_RELID), 'USAGE') THEN
		RAISE EXCEPTION 'permission denied for table skald_setting: only its owner may change %', OLD.name USING ERRCODE = 'insufficient_privilege';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER skald_setting_protected BEFORE UPDATE ON /*schema*/skald_setting FOR EACH ROW
WHEN (OLD.name <> 'recovery reason' OR NEW.name <> 'recovery reason') EXECUTE FUNCTION /*schema*/skald_setting_protected();

-- Raises an error if a condition is false. In a pipeline, a statement that finds no row does not stop the COMMIT after it.
CREATE FUNCTION /*schema*/skald_require(held boolean, what text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF held THEN
		RETURN true;
	END IF;
	RAISE EXCEPTION 'skald: a guard did not hold: %', what USING ERRCODE = 'SK001';
END $$;

-- A UUID of version 7 (RFC 9562): milliseconds of the clock, then random bits.
CREATE FUNCTION /*schema*/skald_uuid7() RETURNS uuid LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
	SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
		PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
$$;

-- 2. The outbox

-- Checks headers: [[name, base64], ...], with names of 1 to 128 characters of A-Z a-z 0-9 . _ -, and names and values of at most
-- 16 KiB in all. Base64 follows RFC 4648, with or without line breaks. decode() alone also accepts blanks within a group, and
-- padding in several groups.
CREATE FUNCTION /*schema*/skald_headers_ok(headers jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	h jsonb;
	value bytea;
	size bigint := 0;
BEGIN
	IF jsonb_typeof(headers) <> 'array' THEN
		RETURN false;
	END IF;
	FOR h IN SELECT e.value FROM jsonb_array_elements(headers) AS e LOOP
		IF jsonb_typeof(h) <> 'array' OR jsonb_array_length(h) <> 2
			OR jsonb_typeof(h -> 0) <> 'string' OR jsonb_typeof(h -> 1) <> 'string'
			OR length(h ->> 0) NOT BETWEEN 1 AND 128 OR (h ->> 0) COLLATE "C" ~ '[^A-Za-z0-9._-]' THEN
			RETURN false;
		END IF;
		value := decode(h ->> 1, 'base64');
		IF translate(encode(value, 'base64'), chr(10), '') <> translate(h ->> 1, chr(10) || chr(13), '') THEN
			RETURN false;
		END IF;
		size := size + length(h ->> 0) + octet_length(value);
	END LOOP;
	RETURN size <= 16384 AND jsonb_array_length(headers) <= 1024;
EXCEPTION WHEN invalid_parameter_value THEN
	RETURN false; -- not base64
END $$;

-- Checks all limits of a row. The error names the broken limit as a constraint.
CREATE FUNCTION /*schema*/skald_limits_ok(topic text, type text, key text, key_bytes bytea, data text, data_bytes bytea,
	subject text, headers jsonb, bucket smallint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	broken text;
BEGIN
	broken := CASE
		WHEN NOT (octet_length(topic) BETWEEN 1 AND 249 AND topic COLLATE "C" !~ '[^A-Za-z0-9._-]') THEN 'topic'
		WHEN NOT (octet_length(type) BETWEEN 1 AND 255 AND type COLLATE "C" !~ '[\r\n]') THEN 'type'
		WHEN coalesce(octet_length(key), octet_length(key_bytes), 0) > 1024 OR key IS NOT NULL AND key_bytes IS NOT NULL THEN 'key'
		WHEN coalesce(octet_length(data), octet_length(data_bytes), 0) > 921600 OR data IS NOT NULL AND data_bytes IS NOT NULL THEN 'data'
		WHEN subject IS NOT NULL AND (octet_length(subject) > 1024 OR subject COLLATE "C" ~ '[\r\n]') THEN 'subject'
		WHEN headers IS NOT NULL AND NOT /*schema*/skald_headers_ok(headers) THEN 'headers'
		WHEN bucket IS NOT NULL AND bucket NOT BETWEEN 0 AND 1023 THEN 'bucket'
	END;
	IF broken IS NOT NULL THEN
		RAISE EXCEPTION 'skald: a row violates the limit skald_outbox_%', broken
			USING ERRCODE = 'check_violation', CONSTRAINT = 'skald_outbox_' || broken;
	END IF;
	RETURN true;
END $$;

-- The column txid must be before seq. PostgreSQL computes defaults in the order of the columns, and a relay needs the
-- transaction to have its number before the transaction draws its first seq.
CREATE TABLE /*schema*/skald_outbox (
	topic          text NOT NULL,
	key            text,  -- NULL, and key_bytes too: the message has no order
	type           text NOT NULL,
	data           text,  -- JSON or text; NULL, and data_bytes too: a tombstone
	data_bytes     bytea, -- the payload for all other content types
	key_bytes      bytea, -- a key that is not UTF-8
	content_type   text NOT NULL DEFAULT 'application/json',
	schema         text,
	subject        text,
	correlation_id text,
	causation_id   text,
	traceparent    text,
	headers        jsonb, -- [[name, base64], ...], in order
	time           timestamptz NOT NULL DEFAULT now(),
	id             uuid NOT NULL DEFAULT /*schema*/skald_uuid7(),
	source         text NOT NULL,
	txid           xid8 NOT NULL DEFAULT pg_current_xact_id(),
	seq            bigint NOT NULL GENERATED ALWAYS AS IDENTITY (CACHE 1),
	slot           smallint NOT NULL DEFAULT (floor(date_part('epoch', now()) / 86400)::bigint % 10)::smallint,
	bucket         smallint, -- NULL: the reader hashes the key, or else the id
	erased_at      timestamptz,
	PRIMARY KEY (seq, slot)
) PARTITION BY LIST (slot);
CREATE INDEX skald_outbox_txid ON /*schema*/skald_outbox (txid, seq);

CREATE TABLE /*schema*/skald_outbox_0 PARTITION OF /*schema*/skald_outbox FOR VALUES IN (0);
CREATE TABLE /*schema*/skald_outbox_1 PARTITION OF /*schema*/skald_outbox FOR VALUES IN (1);
CREATE TABLE /*schema*/skald_outbox_2 PARTITION OF /*schema*/skald_outbox FOR VALUES IN (2);
CREATE TABLE /*schema*/skald_outbox_3 PARTITION OF /*schema*/skald_outbox FOR VALUES IN (3);
CREATE TABLE /*schema*/skald_outbox_4 PARTITION OF /*schema*/skald_outbox FOR VALUES IN (4);
CREATE TABLE /*schema*/skald_outbox_5 PARTITION OF /*schema*/skald_outbox FOR VALUES IN (5);
CREATE TABLE /*schema*/skald_outbox_6 PARTITION OF /*schema*/skald_outbox FOR VALUES IN (6);
CREATE TABLE /*schema*/skald_outbox_7 PARTITION OF /*schema*/skald_outbox FOR VALUES IN (7);
CREATE TABLE /*schema*/skald_outbox_8 PARTITION OF /*schema*/skald_outbox FOR VALUES IN (8);
CREATE TABLE /*schema*/skald_outbox_9 PARTITION OF /*schema*/skald_outbox FOR VALUES IN (9);

-- Raises the error for a row that skald_limits does not accept. A writer that sets bucket has checked the limits itself, and a
-- relay checks them again before it publishes. For such a row this function checks the sizes, and all that a relay could not read:
-- an invalid bucket, headers, two keys, two payloads, and times outside of the years 1 to 9999.
CREATE FUNCTION /*schema*/skald_check_limits(topic text, type text, key text, key_bytes bytea, data text, data_bytes bytea, subject text,
	headers jsonb, bucket smallint, "time" timestamptz, content_type text, schema text, source text, correlation_id text, causation_id text,
	traceparent text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	broken text;
BEGIN
	IF "time" < to_timestamp(-62135596800) OR "time" >= to_timestamp(253402300800) THEN
		RAISE EXCEPTION 'skald: a row violates the limit skald_outbox_time: it lies outside of the years 1 to 9999'
			USING ERRCODE = 'check_violation', CONSTRAINT = 'skald_outbox_time';
	END IF;
	IF bucket IS NULL OR bucket NOT BETWEEN 0 AND 1023 OR headers IS NOT NULL OR key_bytes IS NOT NULL AND key IS NOT NULL
		OR data_bytes IS NOT NULL AND data IS NOT NULL THEN
		PERFORM /*schema*/skald_limits_ok(topic, type, key, key_bytes, data, data_bytes, subject, headers, bucket);
	END IF;
	broken := CASE
		WHEN octet_length(topic) > 249 THEN 'topic'
		WHEN octet_length(type) > 255 THEN 'type'
		WHEN octet_length(key) > 1024 OR octet_length(key_bytes) > 1024 THEN 'key'
		WHEN octet_length(data) > 921600 OR octet_length(data_bytes) > 921600 THEN 'data'
		WHEN octet_length(subject) > 1024 THEN 'subject'
		WHEN octet_length(content_type) > 255 THEN 'content_type'
		WHEN octet_length(schema) > 1024 THEN 'schema'
		WHEN octet_length(source) > 1024 THEN 'source'
		WHEN octet_length(correlation_id) > 1024 OR octet_length(causation_id) > 1024 OR octet_length(traceparent) > 1024 THEN 'stamp'
	END;
	IF broken IS NOT NULL THEN
		RAISE EXCEPTION 'skald: a row violates the limit skald_outbox_%', broken
			USING ERRCODE = 'check_violation', CONSTRAINT = 'skald_outbox_' || broken;
	END IF;
END $$;

-- Checks the limits in a trigger without WHEN. PostgreSQL prepares each CHECK and each WHEN again for each statement, which took as
-- long as the INSERT. A search_path would take 5 microseconds for each row, so each name here has its schema. A row that Skald
-- wrote, within the limits, passes the one condition.
CREATE FUNCTION /*schema*/skald_limits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.bucket OPERATOR(pg_catalog.>=) 0 AND NEW.bucket OPERATOR(pg_catalog.<=) 1023 AND NEW.headers IS NULL
		AND (NEW.key_bytes IS NULL OR NEW.key IS NULL) AND (NEW.data_bytes IS NULL OR NEW.data IS NULL)
		AND NEW.time OPERATOR(pg_catalog.>=) '0001-01-01 00:00:00+00'::pg_catalog.timestamptz
		AND NEW.time OPERATOR(pg_catalog.<) '10000-01-01 00:00:00+00'::pg_catalog.timestamptz
		AND pg_catalog.octet_length(NEW.topic) OPERATOR(pg_catalog.<=) 249 AND pg_catalog.octet_length(NEW.type) OPERATOR(pg_catalog.<=) 255
		AND coalesce(pg_catalog.octet_length(NEW.key), pg_catalog.octet_length(NEW.key_bytes), 0) OPERATOR(pg_catalog.<=) 1024
		AND coalesce(pg_catalog.octet_length(NEW.data), pg_catalog.octet_length(NEW.data_bytes), 0) OPERATOR(pg_catalog.<=) 921600
		AND pg_catalog.octet_length(NEW.content_type) OPERATOR(pg_catalog.<=) 255 AND pg_catalog.octet_length(NEW.source) OPERATOR(pg_catalog.<=) 1024
		AND (NEW.subject IS NULL OR pg_catalog.octet_length(NEW.subject) OPERATOR(pg_catalog.<=) 1024)
		AND (NEW.schema IS NULL OR pg_catalog.octet_length(NEW.schema) OPERATOR(pg_catalog.<=) 1024)
		AND (NEW.correlation_id IS NULL OR pg_catalog.octet_length(NEW.correlation_id) OPERATOR(pg_catalog.<=) 1024)
		AND (NEW.causation_id IS NULL OR pg_catalog.octet_length(NEW.causation_id) OPERATOR(pg_catalog.<=) 1024)
		AND (NEW.traceparent IS NULL OR pg_catalog.octet_length(NEW.traceparent) OPERATOR(pg_catalog.<=) 1024) THEN
		RETURN NEW;
	END IF;
	PERFORM /*schema*/skald_check_limits(NEW.topic, NEW.type, NEW.key, NEW.key_bytes, NEW.data, NEW.data_bytes, NEW.subject, NEW.headers, NEW.bucket,
		NEW.time, NEW.content_type, NEW.schema, NEW.source, NEW.correlation_id, NEW.causation_id, NEW.traceparent);
	RETURN NEW;
END $$;

-- Triggers fire in the order of their names. This one must fire after the triggers of a user, which may change the row.
CREATE TRIGGER zz_skald_limits BEFORE INSERT OR UPDATE ON /*schema*/skald_outbox FOR EACH ROW EXECUTE FUNCTION /*schema*/skald_limits();

-- 3. The relay: the published part of the outbox

-- Snapshots divide the outbox into windows. A window has the rows that its snapshot shows and the snapshot before did not show.
CREATE TABLE /*schema*/skald_snapshot (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	token    text NOT NULL,
	snapshot pg_snapshot NOT NULL,
	seq      bigint NOT NULL, -- the last seq drawn; read after the snapshot was taken
	own_txid xid8 NOT NULL,   -- the snapshot's own transaction; its number was assigned after seq was read
	at       timestamptz NOT NULL
);
-- Finds the first snapshot that shows a row with a given seq.
CREATE INDEX skald_snapshot_seq ON /*schema*/skald_snapshot (seq, id);

-- Shards are ranges of the 1024 buckets.
CREATE TABLE /*schema*/skald_shard (
	id           integer PRIMARY KEY,
	first_bucket smallint NOT NULL,
	last_bucket  smallint NOT NULL,
	epoch        bigint NOT NULL DEFAULT 0,
	token        text NOT NULL DEFAULT '',
	owner        text, -- the owner while skald_relay has a live row of it with this session
	session      text,
	base         text NOT NULL DEFAULT '',
	tip          text NOT NULL DEFAULT '',
	seq          bigint NOT NULL DEFAULT 0,
	incarnation  text NOT NULL DEFAULT '',
	changed_at   timestamptz NOT NULL DEFAULT now(),
	system       bigint NOT NULL,  -- the identifier of the cluster
	timeline     integer NOT NULL, -- of the cluster; raised by a failover
	database     oid NOT NULL      -- system, timeline and database identify the database of the positions. A copy elsewhere must not use them
) WITH (fillfactor = 20);

CREATE TABLE /*schema*/skald_relay (
	owner   text PRIMARY KEY,
	session text NOT NULL,
	until   timestamptz NOT NULL,
	standby boolean NOT NULL DEFAULT false -- true: there is no shard for it, so it waits. The more relays wait, the less often each of them looks for a shard
) WITH (fillfactor = 20);

-- Full copies of rows that the broker refused, and of later rows with the same keys.
CREATE TABLE /*schema*/skald_deferred (
	seq            bigint PRIMARY KEY,
	bucket         smallint NOT NULL,
	id             text NOT NULL,
	source         text NOT NULL,
	topic          text NOT NULL,
	key            bytea,
	type           text NOT NULL,
	data           bytea,
	content_type   text NOT NULL,
	schema         text,
	subject        text,
	correlation_id text,
	causation_id   text,
	traceparent    text,
	headers        bytea, -- as in skald_outbox
	time           timestamptz NOT NULL,
	attempts       integer NOT NULL,
	reason         text NOT NULL,
	due            timestamptz NOT NULL,
	erased_at      timestamptz,
	bytes          bigint, -- the size of a row that is too large to be read; such a row has no copy
	sha256         text    -- the hash of its data
);

-- 4. Check that the positions of the shards belong to this database

-- Returns the identity of this database. By default every role may execute the functions that it calls.
CREATE FUNCTION /*schema*/skald_database_identity(OUT system bigint, OUT timeline integer, OUT database oid) LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
	SELECT c.system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer, d.oid
	FROM pg_control_system() AS c, pg_database AS d WHERE d.datname = current_database()
$$;

INSERT INTO /*schema*/skald_shard (id, first_bucket, last_bucket, system, timeline, database)
SELECT n, n * 64, n * 64 + 63, p.system, p.timeline, p.database FROM generate_series(0, 15) AS n, /*schema*/skald_database_identity() AS p;

-- Returns the first difference between this database and the positions of the shards, or NULL. Each check reads its numbers after the
-- snapshot that it compares them with.
CREATE FUNCTION /*schema*/skald_recovery_reason() RETURNS text LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_sort = off SET plan_cache_mode = force_generic_plan SET max_parallel_workers_per_gather = 0 SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	saw text;
BEGIN
	SELECT value INTO saw FROM /*schema*/skald_setting WHERE name = 'recovery reason' AND value <> '';
	IF saw IS NOT NULL THEN
		RETURN saw;
	END IF;

	SELECT format('shard %s belongs to database %s of cluster %s, this is database %s of cluster %s', l.id, l.database, l.system, p.database, p.system)
	INTO saw
	FROM /*schema*/skald_shard AS l, /*schema*/skald_database_identity() AS p
	WHERE l.system <> p.system OR l.database <> p.database
	ORDER BY l.id LIMIT 1;
	IF saw IS NOT NULL THEN
		IF EXISTS (SELECT FROM /*schema*/skald_snapshot) OR EXISTS (SELECT FROM /*schema*/skald_shard WHERE base <> '' OR tip <> '')
			OR EXISTS (SELECT FROM (SELECT txid FROM /*schema*/skald_outbox ORDER BY txid DESC LIMIT 1) AS o WHERE o.txid >= pg_snapshot_xmax(pg_current_snapshot())) THEN
			RETURN saw;
		END IF; -- no relay has read the copy, and all of its rows can be read: there is nothing to recover
	END IF;

	SELECT format('shard %s is at snapshot %s, %s', l.id, split_part(n.snapshot, '-', 1), CASE
			WHEN t.id IS NULL THEN 'which does not exist'
			WHEN t.seq > coalesce(pg_sequence_last_value('/*schema*/skald_outbox_seq_seq'::regclass), 0) THEN 'which shows row ' || t.seq || ', but the sequence has not reached it'
			ELSE 'taken in transaction ' || t.own_txid || ', which this database has not reached' END)
	INTO saw
	FROM /*schema*/skald_shard AS l CROSS JOIN LATERAL (VALUES (l.base), (l.tip)) AS n(snapshot)
	LEFT JOIN /*schema*/skald_snapshot AS t ON t.id = nullif(split_part(n.snapshot, '-', 1), '')::bigint AND t.token = split_part(n.snapshot, '-', 2)
	WHERE n.snapshot <> '' AND (t.id IS NULL OR t.own_txid >= pg_snapshot_xmax(pg_current_snapshot())
		OR t.seq > coalesce(pg_sequence_last_value('/*schema*/skald_outbox_seq_seq'::regclass), 0))
	ORDER BY l.id LIMIT 1;
	IF saw IS NOT NULL THEN
		RETURN saw;
	END IF;

	SELECT format('row %s exists, but the sequence has only reached %s', o.seq, coalesce(pg_sequence_last_value('/*schema*/skald_outbox_seq_seq'::regclass), 0))
	INTO saw
	FROM (SELECT seq FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT 1) AS o
	WHERE o.seq > coalesce(pg_sequence_last_value('/*schema*/skald_outbox_seq_seq'::regclass), 0);
	RETURN saw;
END $$;

-- Returns the identity of this database. A caller that passes it avoids the full check. Raises an error if the database moved.
CREATE FUNCTION /*schema*/skald_check_identity(known text) RETURNS text LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	here text;
	saw text;
BEGIN
	SELECT c.system_identifier || '-' || d.oid INTO here
	FROM pg_control_system() AS c, pg_database AS d WHERE d.datname = current_database();
	IF here = known THEN
		RETURN here;
	END IF;
	saw := /*schema*/skald_recovery_reason();
	IF saw IS NOT NULL THEN
		RAISE EXCEPTION '%', saw USING ERRCODE = 'SK002';
	END IF;
	RETURN here;
END $$;

-- 5. Messages that consumers finished

CREATE SEQUENCE /*schema*/skald_arrival CACHE 1; -- the order in which messages were handled

-- Messages that consumers finished. Texts are compared byte by byte, whatever collation the database has. So ids of UUID version 7
-- are in the order of their times.
CREATE TABLE /*schema*/skald_mark (
	consumer    text COLLATE "C" NOT NULL,
	source      text COLLATE "C" NOT NULL,
	id          text COLLATE "C" NOT NULL,
	outcome     smallint NOT NULL, -- 1 done, 2 rejected, 3 barred
	reason      text,
	arrival     bigint NOT NULL DEFAULT nextval('/*schema*/skald_arrival'),
	at          timestamptz NOT NULL DEFAULT clock_timestamp(), -- the later of the time of arrival and the time in the id; used by the retention
	fingerprint bigint, -- an HMAC of type and payload; NULL: the consumer compares no payloads
	until       timestamptz, -- the end of a retention that the scope of the key sets; NULL: the retention of all marks applies
	PRIMARY KEY (consumer, source, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05); -- vacuums the marks of one day of retention within about a day
CREATE INDEX skald_mark_at ON /*schema*/skald_mark (at);
CREATE INDEX skald_mark_until ON /*schema*/skald_mark (until) WHERE until IS NOT NULL;

-- The answers of handlers. An answer is written and deleted with its mark. A mark without an answer has no row here.
CREATE TABLE /*schema*/skald_answer (
	arrival bigint PRIMARY KEY, -- the mark's arrival
	outcome smallint NOT NULL, -- replaces the outcome of the mark
	reason  text,
	code    integer NOT NULL,
	result  bytea,
	emitted text, -- the messages that were published with it, as JSON, if repeats publish them again
	headers text -- headers of an HTTP answer, as JSON
);

-- Deletes a mark that has expired, and its answer. An app may call it with the rights of the owner. It deletes no other mark. If two
-- callers run at the same time, the second waits for the first and then finds no mark.
CREATE FUNCTION /*schema*/skald_expire(consumer text, source text, id text) RETURNS void LANGUAGE sql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	WITH m AS (
		DELETE FROM /*schema*/skald_mark AS m WHERE m.consumer = $1 AND m.source = $2 AND m.id = $3 AND m.until <= clock_timestamp()
		RETURNING m.arrival
	)
	DELETE FROM /*schema*/skald_answer WHERE arrival = (SELECT m.arrival FROM m)
$$;
REVOKE EXECUTE ON FUNCTION /*schema*/skald_expire(text, text, text) FROM PUBLIC;

-- The time of the latest deleted mark of a consumer. A message without a mark and with an id of that time or before is too old.
CREATE TABLE /*schema*/skald_floor (
	consumer text PRIMARY KEY,
	at       timestamptz NOT NULL
);

-- Messages in quarantine: a consumer can neither drop nor handle them before an operator decides.
CREATE TABLE /*schema*/skald_quarantine (
	number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	consumer    text NOT NULL,
	source      text NOT NULL,
	id          text NOT NULL,
	fingerprint bigint NOT NULL,
	cause       smallint NOT NULL, -- -1 too old, -2 conflict
	topic       text NOT NULL,
	type        text NOT NULL,
	message     text NOT NULL, -- the message without its payload, as JSON
	data        bytea, -- the unchanged payload; NULL: a tombstone
	at          timestamptz NOT NULL DEFAULT clock_timestamp(),
	admitted_at timestamptz,
	admitted_by text,
	reason      text, -- the operator's reason for admitting it
	taken_at    timestamptz,
	UNIQUE (consumer, source, id, fingerprint),
	CONSTRAINT skald_quarantine_times CHECK (least(at, admitted_at, taken_at) >= timestamptz '0001-01-01 00:00:00+00'
		AND greatest(at, admitted_at, taken_at) < timestamptz '10000-01-01 00:00:00+00')
);
CREATE INDEX skald_quarantine_admitted ON /*schema*/skald_quarantine (consumer, number) WHERE admitted_at IS NOT NULL AND taken_at IS NULL;
CREATE INDEX skald_quarantine_waiting ON /*schema*/skald_quarantine (number) WHERE taken_at IS NULL;

-- Locked entities. The version is the fencing token.
CREATE TABLE /*schema*/skald_entity (
	space   text COLLATE "C" NOT NULL,
	key     bytea NOT NULL,
	version bigint NOT NULL,
	PRIMARY KEY (space, key)
) WITH (fillfactor = 70);

-- Steps of sagas at a consumer. A mark is not enough: a rejected message has a mark, too, but its step had no effect.
CREATE TABLE /*schema*/skald_step (
	consumer    text NOT NULL,
	saga        text NOT NULL,
	step        text NOT NULL,
	occurrence  text NOT NULL, -- distinguishes several steps of one name in a saga
	state       smallint NOT NULL, -- 1 done, 2 calling, 3 parked, 4 dead, 5 rejected, 6 barred, 7 undone
	was         smallint NOT NULL DEFAULT 0, -- the state before the current message took the step
	source      text, -- the message that took the step, or waits to take it
	id          text,
	by_source   text, -- the message that undid or barred it
	by_id       text,
	begun       timestamptz, -- the time when the saga began; NULL: not known
	code        integer, -- the answer of the handler that took the step
	result      bytea,
	outside_key text, -- the idempotency key of an external call
	outcome     bytea, -- the outcome of the external call
	at          timestamptz NOT NULL DEFAULT clock_timestamp(),
	changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (consumer, saga, step, occurrence)
);
CREATE INDEX skald_step_at ON /*schema*/skald_step (at);

-- Steps of this name before this time may have been deleted. A missing step of a saga that began earlier is too old.
CREATE TABLE /*schema*/skald_step_floor (
	consumer text NOT NULL,
	step     text NOT NULL,
	at       timestamptz NOT NULL,
	PRIMARY KEY (consumer, step)
);

-- 6. Parked messages and dead letters

-- Messages that a consumer failed to handle, and later messages of their keys. Each is parked until its turn, or is a dead letter.
-- Of each key, whatever the topics, only the message with the lowest place is tried. The others wait.
CREATE TABLE /*schema*/skald_parked (
	place         bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY, -- the order of arrival
	consumer      text NOT NULL,
	source        text NOT NULL,
	id            text NOT NULL,
	key_lock      bigint NOT NULL, -- the number of the advisory lock of its key
	key           bytea, -- NULL: it waits for no message, and blocks none
	topic         text NOT NULL,
	type          text NOT NULL,
	data          bytea, -- the unchanged payload; NULL: a tombstone
	envelope      bytea NOT NULL, -- the message without key and payload, as JSON
	bytes         bigint NOT NULL, -- the size of key and data
	partition     text NOT NULL, -- the partition of the broker
	position      bigint NOT NULL,
	fault         text NOT NULL, -- the reason why its envelope cannot be decoded; empty if it can
	attempts      integer NOT NULL, -- failed and counted attempts; 0: it only waits
	due           timestamptz NOT NULL, -- the time of the next attempt, once it is the first of its key
	waiting       boolean NOT NULL, -- an earlier message of its key is parked
	blocks_key    boolean NOT NULL, -- later messages of its key wait for it
	since         timestamptz NOT NULL DEFAULT clock_timestamp(),
	first_at      timestamptz,
	first_error   text NOT NULL,
	first_host    text NOT NULL,
	last_at       timestamptz,
	last_error    text NOT NULL,
	last_host     text NOT NULL,
	dead_at       timestamptz, -- the time when it became a dead letter; NULL: it is parked
	kind          text NOT NULL, -- the reason why it is a dead letter: attempts, age, malformed, permanent, ...
	fingerprint   text NOT NULL, -- groups dead letters: equal for failures of one kind
	stack         text NOT NULL, -- the stack of a panic
	version       text NOT NULL, -- the version of the program
	running_count bigint NOT NULL, -- running totals within the key: the difference of two rows counts the messages and bytes between them
	running_bytes bigint NOT NULL,
	erased_at     timestamptz,
	call          text, -- an external call, as JSON: {"key", "request", "since", "outcome", "undo"}; NULL: none
	claims        integer NOT NULL DEFAULT 0, -- claims since the last answer
	claimed_by    text NOT NULL DEFAULT '', -- the session of the last process that claimed it
	crash_count   integer NOT NULL DEFAULT 0, -- the number of times its process ended while it handled only this message
	prefetched_to bigint, -- the place of the last message that the same claim prefetched; NULL: none
	-- One row with an infinite time would make each claim fail.
	CONSTRAINT skald_parked_times CHECK (least(due, since, first_at, last_at, dead_at) >= timestamptz '0001-01-01 00:00:00+00'
		AND greatest(due, since, first_at, last_at, dead_at) < timestamptz '10000-01-01 00:00:00+00'),
	CONSTRAINT skald_parked_call CHECK (json_typeof(call::json) = 'object')
);
CREATE UNIQUE INDEX skald_parked_identity ON /*schema*/skald_parked (consumer, source, id);
CREATE INDEX skald_parked_due ON /*schema*/skald_parked (consumer, due) WHERE dead_at IS NULL AND NOT waiting;
CREATE INDEX skald_parked_key ON /*schema*/skald_parked (consumer, key, place) WHERE key IS NOT NULL AND blocks_key;
CREATE INDEX skald_parked_front ON /*schema*/skald_parked (consumer, key, place) WHERE key IS NOT NULL AND blocks_key AND NOT waiting;
CREATE INDEX skald_parked_dead ON /*schema*/skald_parked (consumer, fingerprint, place) INCLUDE (dead_at, bytes) WHERE dead_at IS NOT NULL;
CREATE INDEX skald_parked_failed ON /*schema*/skald_parked (consumer, place) WHERE attempts > 0 AND dead_at IS NULL;
CREATE INDEX skald_parked_call ON /*schema*/skald_parked (consumer, place) WHERE call IS NOT NULL;
-- Only queries that count or list use these indexes: they add the condition bytes >= 0, which is always true. Otherwise plans
-- that were made for an empty table would use them instead of the right index.
CREATE INDEX skald_parked_since ON /*schema*/skald_parked (consumer, since) INCLUDE (bytes) WHERE dead_at IS NULL AND bytes >= 0;
CREATE INDEX skald_parked_freed ON /*schema*/skald_parked (consumer, key, place) WHERE key IS NOT NULL AND NOT blocks_key AND bytes >= 0;
-- If most parked messages have one key when statistics are taken, the planner expects as many for any key. It then reads the whole
-- table in order instead of searching the key.
ALTER TABLE /*schema*/skald_parked ALTER COLUMN key SET (n_distinct = -1);

-- Locks a key of a consumer until the transaction ends, and then returns the state of a message: 0 it may be handled, -3 it is
-- parked, -4 it is a dead letter, -5 an earlier message of its key is parked, -6 (with attempts) its row changed since the claim.
-- The second statement has its own snapshot, taken after the lock.
CREATE FUNCTION /*schema*/skald_check_key_order(key_lock bigint, consumer text, source text, id text, key bytea, attempts integer) RETURNS smallint
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	mine bigint;
	tries integer;
	first bigint;
BEGIN
	PERFORM pg_advisory_xact_lock($1);
	SELECT (SELECT p.place FROM /*schema*/skald_parked AS p WHERE p.consumer = $2 AND p.source = $3 AND p.id = $4),
		(SELECT p.place FROM /*schema*/skald_parked AS p WHERE p.consumer = $2 AND p.key = $5 AND p.blocks_key ORDER BY p.place LIMIT 1)
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

-- Changes that operators made.
CREATE TABLE /*schema*/skald_audit (
	seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at       timestamptz NOT NULL DEFAULT clock_timestamp(),
	author   text NOT NULL, -- the name that the operator gave
	reason   text NOT NULL,
	action   text NOT NULL, -- redrive, release, drop, import
	consumer text NOT NULL,
	source   text NOT NULL,
	id       text NOT NULL,
	run      text NOT NULL DEFAULT '', -- the run (a change of many messages) that it belongs to; an interrupted run continues from here
	login    text NOT NULL DEFAULT session_user -- the database user
);
CREATE INDEX skald_audit_run ON /*schema*/skald_audit (run, seq) WHERE run <> '';

-- 7. Consumers

-- The progress of consumers in the partitions of the broker, and the session that owns each partition.
CREATE TABLE /*schema*/skald_checkpoint (
	consumer      text NOT NULL,
	partition     text NOT NULL,
	origin        text NOT NULL, -- the identity of the topic: a topic that was recreated has another one, and its positions are not comparable
	position      bigint NOT NULL, -- the first position that is not finished; -1: not known yet
	in_flight_end bigint NOT NULL, -- the first position at which no message has begun, for certain
	session       text NOT NULL, -- the session that owns the partition; empty: the last one released it
	stamp         text NOT NULL, -- the id of the last write; each write has another one
	at            timestamptz NOT NULL DEFAULT clock_timestamp(),
	crash_suspect bigint NOT NULL DEFAULT 0, -- the end of the positions that may have been in progress when an earlier owner ended; only these are suspected of a crash
	PRIMARY KEY (consumer, partition)
) WITH (fillfactor = 50);

-- The types of messages that the processes of a consumer handle. A process parks other types for processes of another build.
CREATE TABLE /*schema*/skald_handled_type (
	consumer text NOT NULL,
	topic    text NOT NULL,
	type     text NOT NULL,
	at       timestamptz NOT NULL DEFAULT clock_timestamp(), -- the last heartbeat of a process that handles it
	PRIMARY KEY (consumer, topic, type)
) WITH (fillfactor = 50);

-- The last heartbeat and the last progress of each consumer. From these any process of the database reports a consumer that is gone or
-- stuck.
CREATE TABLE /*schema*/skald_consumer (
	consumer    text PRIMARY KEY,
	heard_at    timestamptz NOT NULL DEFAULT clock_timestamp(), -- the last heartbeat of one of its processes
	progress_at timestamptz NOT NULL DEFAULT clock_timestamp()  -- the time when one of them last acknowledged a message
) WITH (fillfactor = 50);

-- 8. Retention

-- Leases for work that one process at a time does.
CREATE TABLE /*schema*/skald_lease (
	name  text PRIMARY KEY, -- retention
	owner text NOT NULL,
	until timestamptz NOT NULL
);

-- The time when the retention last examined each table, and last deleted rows from it.
CREATE TABLE /*schema*/skald_retention_run (
	name       text PRIMARY KEY, -- the name of the table
	ran_at     timestamptz,
	removed_at timestamptz,
	keep       interval -- the retention that was last applied
);
INSERT INTO /*schema*/skald_retention_run (name) VALUES ('skald_outbox'), ('skald_mark'), ('skald_quarantine'), ('skald_step'), ('skald_saga');

-- 9. Views for operators. No view reads the whole outbox.

-- The positions of the shards. All rows that base sees are published. If a window is open, so are the rows that tip sees with a seq
-- up to "tip_seq". No row after "published_to" is published.
CREATE VIEW /*schema*/skald_shard_position AS
SELECT l.id AS shard, l.first_bucket, l.last_bucket, b.snapshot AS base, b.seq AS base_seq, b.own_txid AS base_txid,
	t.snapshot AS tip, t.own_txid AS tip_txid, CASE WHEN t.id IS NULL THEN 0 ELSE l.seq END AS tip_seq,
	greatest(b.seq, CASE WHEN t.id IS NULL THEN 0 ELSE l.seq END) AS published_to
FROM /*schema*/skald_shard AS l
LEFT JOIN /*schema*/skald_snapshot AS b ON b.id = nullif(split_part(l.base, '-', 1), '')::bigint AND b.token = split_part(l.base, '-', 2)
LEFT JOIN /*schema*/skald_snapshot AS t ON l.tip <> l.base AND t.id = nullif(split_part(l.tip, '-', 1), '')::bigint AND t.token = split_part(l.tip, '-', 2);

-- Returns rows up to a seq that may be pending although later rows are published. Their transactions were running when a shard's
-- snapshot was taken. It is a function so that PostgreSQL expects few rows and does not compile the query. Like a view, it runs with
-- the rights of the owner.
CREATE FUNCTION /*schema*/skald_late_rows(most bigint) RETURNS SETOF bigint LANGUAGE sql STABLE ROWS 10
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off AS $$
	WITH s AS (
		SELECT base::text AS snapshot, base_txid AS own_txid, base_seq AS seq FROM /*schema*/skald_shard_position WHERE base IS NOT NULL
		UNION SELECT tip::text, tip_txid, tip_seq FROM /*schema*/skald_shard_position WHERE tip IS NOT NULL
	), g AS (
		SELECT x AS first, x AS last, max(seq) AS seq FROM s CROSS JOIN LATERAL pg_snapshot_xip(s.snapshot::pg_snapshot) AS x GROUP BY x
		UNION ALL SELECT pg_snapshot_xmax(snapshot::pg_snapshot), own_txid, seq FROM s
	)
	SELECT DISTINCT r.seq FROM g CROSS JOIN LATERAL (
		SELECT o.seq FROM /*schema*/skald_outbox AS o WHERE o.txid BETWEEN g.first AND g.last AND o.seq <= least(g.seq, most) OFFSET 0) AS r
$$;

-- All stored rows. Queries by seq, by a range of seqs, or with ORDER BY seq and LIMIT are fast even with 10 million rows.
CREATE VIEW /*schema*/skald_outbox_state AS
SELECT o.seq, o.id, o.topic, o.key, o.key_bytes, o.type, o.time, p.shard,
	CASE WHEN a.seq IS NOT NULL THEN 'deferred'
		WHEN (pg_visible_in_snapshot(o.txid, p.base) OR o.seq <= p.tip_seq AND pg_visible_in_snapshot(o.txid, p.tip)) IS TRUE THEN 'published'
		ELSE 'pending' END AS state,
	-- The first snapshot that shows the row: a relay could publish it from then on. NULL: there is none yet, or it was deleted.
	(SELECT CASE WHEN t.id = 1 OR t.id > (SELECT min(id) FROM /*schema*/skald_snapshot) THEN t.id END FROM /*schema*/skald_snapshot AS t
		WHERE t.seq >= o.seq AND pg_visible_in_snapshot(o.txid, t.snapshot) ORDER BY t.seq, t.id LIMIT 1) AS snapshot,
	(SELECT CASE WHEN t.id = 1 OR t.id > (SELECT min(id) FROM /*schema*/skald_snapshot) THEN t.at END FROM /*schema*/skald_snapshot AS t
		WHERE t.seq >= o.seq AND pg_visible_in_snapshot(o.txid, t.snapshot) ORDER BY t.seq, t.id LIMIT 1) AS snapshot_at,
	a.attempts, a.reason, a.due
FROM /*schema*/skald_outbox AS o
CROSS JOIN LATERAL (SELECT coalesce(o.bucket, (SELECT get_byte(h, 0) % 4 * 256 + get_byte(h, 1)
	FROM (SELECT sha256(coalesce(o.key_bytes, convert_to(coalesce(o.key, o.id::text), 'UTF8'))) AS h) AS s)) AS n OFFSET 0) AS h
JOIN /*schema*/skald_shard_position AS p ON h.n BETWEEN p.first_bucket AND p.last_bucket
LEFT JOIN /*schema*/skald_deferred AS a ON a.seq = o.seq;

-- The rows that no relay has published yet, without the deferred ones. The cost grows with their number only. Ranges have two ends:
-- for a range with one end PostgreSQL expects a third of the table.
CREATE VIEW /*schema*/skald_outbox_pending AS
WITH low AS MATERIALIZED (
	SELECT min(published_to) AS seq FROM /*schema*/skald_shard_position
), head AS MATERIALIZED (
	SELECT coalesce((SELECT seq FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT 1), 0) AS seq
), early AS MATERIALIZED (
	SELECT n AS seq FROM /*schema*/skald_late_rows((SELECT seq FROM low)) AS n
)
SELECT o.seq, o.id, o.topic, o.key, o.key_bytes, o.type, o.time, p.shard
FROM (
	SELECT o.* FROM early CROSS JOIN LATERAL (SELECT * FROM /*schema*/skald_outbox AS o WHERE o.seq = early.seq OFFSET 0) AS o
	UNION ALL
	SELECT o.* FROM /*schema*/skald_outbox AS o WHERE o.seq > (SELECT seq FROM low) AND o.seq <= (SELECT seq FROM head)
) AS o
CROSS JOIN LATERAL (SELECT coalesce(o.bucket, (SELECT get_byte(h, 0) % 4 * 256 + get_byte(h, 1)
	FROM (SELECT sha256(coalesce(o.key_bytes, convert_to(coalesce(o.key, o.id::text), 'UTF8'))) AS h) AS s)) AS n OFFSET 0) AS h
JOIN /*schema*/skald_shard_position AS p ON h.n BETWEEN p.first_bucket AND p.last_bucket
WHERE NOT (pg_visible_in_snapshot(o.txid, p.base) OR o.seq <= p.tip_seq AND pg_visible_in_snapshot(o.txid, p.tip)) IS TRUE
	AND NOT EXISTS (SELECT FROM /*schema*/skald_deferred AS a WHERE a.seq = o.seq);

-- Counts the pending rows of each shard: rows after a seq, and late rows.
CREATE FUNCTION /*schema*/skald_pending_after(near bigint) RETURNS TABLE (shard integer, n bigint, oldest_at timestamptz) LANGUAGE sql STABLE ROWS 16
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off AS $$
	SELECT p.shard, count(*), min(o.time)
	FROM (
		SELECT o.* FROM /*schema*/skald_late_rows(near) AS early CROSS JOIN LATERAL (SELECT * FROM /*schema*/skald_outbox AS o WHERE o.seq = early OFFSET 0) AS o
		UNION ALL
		SELECT o.* FROM /*schema*/skald_outbox AS o WHERE o.seq > near
	) AS o
	CROSS JOIN LATERAL (SELECT coalesce(o.bucket, (SELECT get_byte(h, 0) % 4 * 256 + get_byte(h, 1)
		FROM (SELECT sha256(coalesce(o.key_bytes, convert_to(coalesce(o.key, o.id::text), 'UTF8'))) AS h) AS s)) AS n OFFSET 0) AS h
	JOIN /*schema*/skald_shard_position AS p ON h.n BETWEEN p.first_bucket AND p.last_bucket
	WHERE (pg_visible_in_snapshot(o.txid, p.base) OR o.seq <= p.tip_seq AND pg_visible_in_snapshot(o.txid, p.tip)) IS NOT TRUE
		AND (o.seq > near OR o.seq <= p.published_to)
	GROUP BY p.shard
$$;

-- Returns the time of the first row after a seq. It prefers rows with one of these buckets among the first thousand.
CREATE FUNCTION /*schema*/skald_oldest_after(behind bigint, first_bucket integer, last_bucket integer) RETURNS timestamptz LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off AS $$
	SELECT o.time FROM (SELECT * FROM /*schema*/skald_outbox AS o WHERE o.seq > behind ORDER BY o.seq LIMIT 1000) AS o
	CROSS JOIN LATERAL (SELECT coalesce(o.bucket, (SELECT get_byte(h, 0) % 4 * 256 + get_byte(h, 1)
		FROM (SELECT sha256(coalesce(o.key_bytes, convert_to(coalesce(o.key, o.id::text), 'UTF8'))) AS h) AS s)) AS n OFFSET 0) AS h
	ORDER BY h.n BETWEEN first_bucket AND last_bucket DESC, o.seq LIMIT 1
$$;

-- Counts the last 10,000 numbers row by row. If a shard is further behind, the earlier rows are estimated: the distance, multiplied by
-- the shard's share of the buckets.
CREATE VIEW /*schema*/skald_shards AS
WITH p AS MATERIALIZED (
	SELECT * FROM /*schema*/skald_shard_position
), refused AS MATERIALIZED (
	SELECT bucket, count(*) AS n FROM /*schema*/skald_deferred GROUP BY bucket
), near AS MATERIALIZED (
	SELECT greatest((SELECT min(published_to) FROM p), coalesce((SELECT seq FROM /*schema*/skald_outbox ORDER BY seq DESC LIMIT 1), 0) - 10000) AS seq
)
SELECT p.shard, p.first_bucket, p.last_bucket, r.owner, l.epoch, r.until AS lease_until,
	coalesce(n.n, 0) + round(greatest(near.seq - p.published_to, 0)::numeric * (p.last_bucket - p.first_bucket + 1) / 1024)::bigint AS pending,
	p.published_to >= near.seq AS exact,
	least(n.oldest_at, CASE WHEN p.published_to < near.seq THEN /*schema*/skald_oldest_after(p.published_to, p.first_bucket, p.last_bucket) END) AS oldest_at,
	coalesce((SELECT sum(a.n) FROM refused AS a WHERE a.bucket BETWEEN p.first_bucket AND p.last_bucket), 0)::bigint AS deferred
FROM p JOIN /*schema*/skald_shard AS l ON l.id = p.shard CROSS JOIN near
LEFT JOIN /*schema*/skald_pending_after((SELECT seq FROM near)) AS n ON n.shard = p.shard
LEFT JOIN /*schema*/skald_relay AS r ON r.owner = l.owner AND r.session = l.session AND r.until > clock_timestamp();

CREATE VIEW /*schema*/skald_backlog AS
SELECT coalesce(sum(pending), 0)::bigint AS pending, coalesce(bool_and(exact), true) AS exact, min(oldest_at) AS oldest_at,
	coalesce(greatest(extract(epoch FROM clock_timestamp() - min(oldest_at)), 0), 0)::double precision AS oldest_seconds,
	coalesce(sum(deferred), 0)::bigint AS deferred
FROM /*schema*/skald_shards;

-- These functions run with the rights of their owner, for the roles that read the views. All other functions run with the rights of
-- their caller. Each role that inserts rows needs three of these, so PUBLIC may execute them.
REVOKE EXECUTE ON FUNCTION /*schema*/skald_late_rows(bigint), /*schema*/skald_pending_after(bigint), /*schema*/skald_oldest_after(bigint, integer, integer) FROM PUBLIC;

CREATE VIEW /*schema*/skald_keys AS
SELECT m.consumer COLLATE "default" AS consumer, m.source COLLATE "default" AS source, m.id COLLATE "default" AS key,
	CASE coalesce(a.outcome, m.outcome) WHEN 1 THEN 'done' WHEN 2 THEN 'rejected' WHEN 3 THEN 'barred' ELSE 'other' END AS status,
	a.code, a.result, coalesce(a.reason, m.reason) AS reason, m.fingerprint, m.at, m.arrival, a.headers, m.until
FROM /*schema*/skald_mark AS m LEFT JOIN /*schema*/skald_answer AS a ON a.arrival = m.arrival;

CREATE VIEW /*schema*/skald_quarantined AS
SELECT number, consumer, source, id, CASE cause WHEN -1 THEN 'too old' ELSE 'conflict' END AS cause, topic, type, at,
	extract(epoch FROM clock_timestamp() - at)::double precision AS seconds, admitted_at, admitted_by, reason, message, data
FROM /*schema*/skald_quarantine WHERE taken_at IS NULL;

CREATE VIEW /*schema*/skald_steps AS
SELECT s.consumer, s.saga, s.step, s.occurrence, CASE s.state WHEN 1 THEN 'done' WHEN 2 THEN 'calling' WHEN 5 THEN 'rejected' WHEN 6 THEN 'barred'
	WHEN 7 THEN 'undone' ELSE CASE WHEN p.place IS NULL THEN 'dropped' WHEN p.dead_at IS NULL THEN 'parked' ELSE 'dead' END END AS state,
	s.source, s.id, s.by_source, s.by_id, s.code, s.result, s.outside_key, s.outcome, s.begun, s.at, s.changed_at
FROM /*schema*/skald_step AS s
LEFT JOIN /*schema*/skald_parked AS p ON p.consumer = s.consumer AND p.source = s.source AND p.id = s.id AND s.state IN (3, 4);

-- Dead letters, without their payloads.
CREATE VIEW /*schema*/skald_dead AS
SELECT place, consumer, source, id, topic, type, key, attempts, dead_at, kind, fingerprint, last_error, last_host, first_at, first_error,
	version, blocks_key AND key IS NOT NULL AS blocks_key
FROM /*schema*/skald_parked WHERE dead_at IS NOT NULL;

-- External calls with an unknown outcome.
CREATE VIEW /*schema*/skald_calls AS
SELECT place, consumer, source, id, topic, type, key, call::json ->> 'key' AS outside_key, (call::json ->> 'since')::timestamptz AS since,
	greatest(extract(epoch FROM clock_timestamp() - (call::json ->> 'since')::timestamptz), 0)::double precision AS seconds,
	attempts, due, last_error, dead_at
FROM /*schema*/skald_parked WHERE call IS NOT NULL;

-- Counts the parked messages and dead letters of each consumer, or of one. It counts up to 10,000 of each. Above that, it estimates
-- number and bytes from 500 pages of the table, always the same ones; the oldest dead letter is then that of the counted ones. It is
-- a function for the same reasons as skald_late_rows.
CREATE FUNCTION /*schema*/skald_kept_counts(only_of text) RETURNS TABLE (consumer text, parked bigint, parked_bytes bigint, parked_at timestamptz, dead bigint, dead_bytes bigint, dead_at timestamptz)
LANGUAGE sql STABLE ROWS 10 SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
	WITH RECURSIVE every AS (
		(SELECT k.consumer FROM /*schema*/skald_parked AS k ORDER BY k.consumer LIMIT 1)
		UNION ALL
		SELECT (SELECT k.consumer FROM /*schema*/skald_parked AS k WHERE k.consumer > e.consumer ORDER BY k.consumer LIMIT 1) FROM every AS e WHERE e.consumer IS NOT NULL
	), share AS MATERIALIZED (
		SELECT least(1, 500 * current_setting('block_size')::numeric / greatest(pg_relation_size((SELECT k.tableoid FROM /*schema*/skald_parked AS k LIMIT 1)), 1)) AS read
	), sample AS MATERIALIZED (
		SELECT k.consumer, (count(*) FILTER (WHERE k.dead_at IS NULL) / max(read))::bigint AS parked,
			(coalesce(sum(k.bytes) FILTER (WHERE k.dead_at IS NULL), 0) / max(read))::bigint AS parked_bytes,
			(count(*) FILTER (WHERE k.dead_at IS NOT NULL) / max(read))::bigint AS dead,
			(coalesce(sum(k.bytes) FILTER (WHERE k.dead_at IS NOT NULL), 0) / max(read))::bigint AS dead_bytes
		FROM /*schema*/skald_parked AS k TABLESAMPLE SYSTEM (100 * (SELECT read FROM share)) REPEATABLE (0) CROSS JOIN share GROUP BY k.consumer
	)
	SELECT e.consumer,
		CASE WHEN p.n <= 10000 THEN p.n ELSE greatest(p.n, (SELECT s.parked FROM sample AS s WHERE s.consumer = e.consumer)) END,
		CASE WHEN p.n <= 10000 THEN p.bytes ELSE greatest(p.bytes, (SELECT s.parked_bytes FROM sample AS s WHERE s.consumer = e.consumer)) END, p.at,
		CASE WHEN d.n <= 10000 THEN d.n ELSE greatest(d.n, (SELECT s.dead FROM sample AS s WHERE s.consumer = e.consumer)) END,
		CASE WHEN d.n <= 10000 THEN d.bytes ELSE greatest(d.bytes, (SELECT s.dead_bytes FROM sample AS s WHERE s.consumer = e.consumer)) END, d.at
	FROM (SELECT consumer FROM every WHERE only_of IS NULL UNION ALL SELECT only_of WHERE only_of IS NOT NULL) AS e
	CROSS JOIN LATERAL (SELECT count(*) AS n, coalesce(sum(k.bytes), 0)::bigint AS bytes, min(k.since) AS at FROM (
		SELECT a.bytes, a.since FROM /*schema*/skald_parked AS a WHERE a.consumer = e.consumer AND a.dead_at IS NULL AND a.bytes >= 0 ORDER BY a.since LIMIT 10001) AS k) AS p
	CROSS JOIN LATERAL (SELECT count(*) AS n, coalesce(sum(k.bytes), 0)::bigint AS bytes, min(k.dead_at) AS at FROM (
		SELECT a.bytes, a.dead_at FROM /*schema*/skald_parked AS a WHERE a.consumer = e.consumer AND a.dead_at IS NOT NULL ORDER BY a.fingerprint, a.place LIMIT 10001) AS k) AS d
	WHERE p.n + d.n > 0
$$;
REVOKE EXECUTE ON FUNCTION /*schema*/skald_kept_counts(text) FROM PUBLIC;

-- Counts the messages of each consumer that are parked, dead or in quarantine. It reads no other messages.
CREATE VIEW /*schema*/skald_consumers AS
SELECT consumer, sum(parked)::bigint AS parked, sum(parked_bytes)::bigint AS parked_bytes, min(parked_at) AS parked_at,
	coalesce(greatest(extract(epoch FROM clock_timestamp() - min(parked_at)), 0), 0)::double precision AS parked_seconds,
	sum(dead)::bigint AS dead, sum(dead_bytes)::bigint AS dead_bytes, min(dead_at) AS dead_at,
	sum(conflicts)::bigint AS conflicts, sum(too_old)::bigint AS too_old, sum(quarantined_bytes)::bigint AS quarantined_bytes, min(quarantined_at) AS quarantined_at,
	coalesce(greatest(extract(epoch FROM clock_timestamp() - min(quarantined_at)), 0), 0)::double precision AS quarantined_seconds
FROM (
	SELECT consumer, parked, parked_bytes, parked_at, dead, dead_bytes, dead_at, 0::bigint AS conflicts, 0::bigint AS too_old,
		0::bigint AS quarantined_bytes, NULL::timestamptz AS quarantined_at
	FROM /*schema*/skald_kept_counts(NULL)
	UNION ALL
	SELECT consumer, 0, 0, NULL, 0, 0, NULL, count(*) FILTER (WHERE cause = -2), count(*) FILTER (WHERE cause = -1),
		coalesce(sum(octet_length(data)), 0), min(at)
	FROM /*schema*/skald_quarantine WHERE taken_at IS NULL AND admitted_at IS NULL GROUP BY consumer
) AS k GROUP BY consumer;

-- Consumers, and relays that own shards.
CREATE VIEW /*schema*/skald_progress AS
SELECT 'consumer' AS kind, c.consumer AS name, h.at AS heard_at,
	greatest(extract(epoch FROM clock_timestamp() - h.at), 0)::double precision AS heard_seconds, c.progress_at,
	greatest(extract(epoch FROM clock_timestamp() - c.progress_at), 0)::double precision AS progress_seconds,
	t.topics
FROM /*schema*/skald_consumer AS c
CROSS JOIN LATERAL (SELECT max(at) AS at, coalesce(array_agg(DISTINCT topic), '{}') AS topics FROM /*schema*/skald_handled_type WHERE consumer = c.consumer) AS t
CROSS JOIN LATERAL (SELECT greatest(c.heard_at, t.at) AS at) AS h
UNION ALL
SELECT 'relay', owner, NULL, NULL, max(changed_at), greatest(extract(epoch FROM clock_timestamp() - max(changed_at)), 0)::double precision, '{}'
FROM /*schema*/skald_shard WHERE owner IS NOT NULL GROUP BY owner;

CREATE VIEW /*schema*/skald_retention AS
SELECT m.name, m.ran_at, extract(epoch FROM clock_timestamp() - m.ran_at)::double precision AS ran_seconds,
	m.removed_at, extract(epoch FROM clock_timestamp() - m.removed_at)::double precision AS removed_seconds,
	o.at AS oldest_at, extract(epoch FROM clock_timestamp() - o.at)::double precision AS oldest_seconds,
	extract(epoch FROM m.keep)::double precision AS keep_seconds
FROM /*schema*/skald_retention_run AS m LEFT JOIN (
	SELECT 'skald_outbox' AS name, (SELECT time FROM /*schema*/skald_outbox ORDER BY seq LIMIT 1) AS at
	UNION ALL
	SELECT 'skald_mark', (SELECT min(at) FROM /*schema*/skald_mark)
) AS o ON o.name = m.name;

-- 10. Schemas of payloads

-- Schemas of payloads, as a registry returned them, by the id in the payload. With them parked messages and dead letters stay readable
-- if the registry is gone. An id belongs to one schema forever. Nothing deletes schemas.
CREATE TABLE /*schema*/skald_payload_schema (
	registry   text NOT NULL, -- the registry of the id; empty if there is only one
	id         text NOT NULL, -- a number or a GUID
	definition text NOT NULL, -- JSON: format, text, imports
	at         timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (registry, id)
);

-- 11. Reserved keys

-- Keys that are reserved for work outside of a transaction. After the lease has ended, the next caller takes the key over with its own
-- token.
CREATE TABLE /*schema*/skald_reservation (
	consumer    text COLLATE "C" NOT NULL,
	source      text COLLATE "C" NOT NULL,
	id          text COLLATE "C" NOT NULL,
	fingerprint bigint,
	token       text NOT NULL,
	at          timestamptz NOT NULL DEFAULT clock_timestamp(), -- when it was reserved
	until       timestamptz NOT NULL,
	PRIMARY KEY (consumer, source, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- 12. Choreographed sagas

-- The state of each saga that a tracker has seen.
CREATE TABLE /*schema*/skald_tracked (
	key        text COLLATE "C" NOT NULL,
	flow       text COLLATE "C" NOT NULL,
	state      text NOT NULL DEFAULT '',
	due        timestamptz, -- the saga is overdue from then on; NULL: never
	drift      integer NOT NULL DEFAULT 0, -- the number of violations of the flow
	drifted_at timestamptz, -- when drift last increased; NULL: it is 0
	body       text NOT NULL DEFAULT '', -- the events seen, as JSON
	at         timestamptz NOT NULL DEFAULT clock_timestamp(),
	changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (key, flow)
) WITH (fillfactor = 80);
-- For counts, and for lists of overdue and drifted sagas.
CREATE INDEX skald_tracked_live ON /*schema*/skald_tracked (flow, state, due) WHERE state IN ('running', 'compensating');
CREATE INDEX skald_tracked_drifted ON /*schema*/skald_tracked (flow, drifted_at) WHERE drifted_at IS NOT NULL;

-- 13. Orchestrated sagas

-- One row for each saga. No index has a column that a step changes, and these columns are after those that never change. So the write
-- of a step is a HOT update with space on its page, and the WAL has only the changed part of the row.
CREATE TABLE /*schema*/skald_saga (
	fingerprint bigint NOT NULL, -- of input
	started_at  timestamptz NOT NULL,
	name        text COLLATE "C" NOT NULL, -- the name of its definition
	key         text COLLATE "C" NOT NULL,
	id          text COLLATE "C" NOT NULL, -- each start of the key has another one
	hash        text COLLATE "C" NOT NULL, -- the hash of the definition that wrote state
	input       text NOT NULL, -- JSON; never changes
	origin      text NOT NULL, -- correlation, trace and parent; never changes
	session     text COLLATE "C" NOT NULL, -- the engine that has leased the saga until due; empty: none
	due         timestamptz, -- NULL: not before another write of the saga
	status      text COLLATE "C" NOT NULL, -- running, compensating, done, compensated
	stuck       boolean NOT NULL,
	paused      boolean NOT NULL,
	version     bigint NOT NULL, -- raised by each write
	changed_at  timestamptz NOT NULL,
	failed      integer NOT NULL, -- failed attempts in a row
	step        text NOT NULL,
	error       text NOT NULL,
	state       text NOT NULL, -- JSON
	since       timestamptz, -- the time of the first failure in a row
	retry       timestamptz, -- the time of the next attempt
	ended_at    timestamptz,
	PRIMARY KEY (name, key)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX skald_saga_due ON /*schema*/skald_saga (hash, due) WHERE due IS NOT NULL;
-- For counts, and for lists of stuck and failing sagas.
CREATE INDEX skald_saga_live ON /*schema*/skald_saga (status, stuck, paused, (retry IS NOT NULL), name, started_at) WHERE ended_at IS NULL;
CREATE INDEX skald_saga_ended ON /*schema*/skald_saga (ended_at) WHERE ended_at IS NOT NULL;

-- Lines of sagas for entities. The saga with the smallest place holds the entity. A writer first locks the row of skald_entity.
CREATE TABLE /*schema*/skald_hold (
	space    text COLLATE "C" NOT NULL, -- as in skald_entity
	key      bytea NOT NULL,
	place    bigint NOT NULL,
	holder   text COLLATE "C" NOT NULL, -- the id of the saga, or of its topmost parent
	name     text COLLATE "C" NOT NULL, -- the saga that waits, with saga_key
	saga_key text COLLATE "C" NOT NULL,
	since    timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (space, key, place)
);
CREATE INDEX skald_hold_holder ON /*schema*/skald_hold (holder);

-- Definitions that engines stored.
CREATE TABLE /*schema*/skald_saga_definition (
	name     text COLLATE "C" NOT NULL,
	hash     text COLLATE "C" NOT NULL,
	number   bigint NOT NULL, -- the order in which engines first stored the definitions of a name; never changes
	written  text NOT NULL, -- JSON
	noted_at timestamptz NOT NULL, -- when an engine last stored it
	PRIMARY KEY (name, hash)
);

CREATE VIEW /*schema*/skald_sagas AS
SELECT name, key, id, status, stuck, paused, step, error, failed, since, retry, started_at, changed_at, ended_at,
	extract(epoch FROM coalesce(ended_at, clock_timestamp()) - started_at)::double precision AS seconds,
	session, due, coalesce(greatest(extract(epoch FROM clock_timestamp() - due), 0), 0)::double precision AS overdue_seconds,
	version, hash, input, state
FROM /*schema*/skald_saga;
