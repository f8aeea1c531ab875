-- The tables of Skald in PostgreSQL 13 or newer, database encoding UTF8.
--
-- skald_outbox is a contract: from any language, a trigger or psql,
--   INSERT INTO skald_outbox (topic, key, type, data) VALUES ('orders', '42', 'order.placed', '{"id":42}')
-- is a complete, ordered, deliverable message. Nothing here is made or dropped at run time.

CREATE TABLE /*schema*/skald_setting (
	name  text PRIMARY KEY,
	value text NOT NULL
);
INSERT INTO /*schema*/skald_setting (name, value) VALUES ('lease', ''); -- locked while lanes are dealt out

-- A guard in a pipeline raises: a statement that merely finds nothing does not stop the COMMIT behind it.
CREATE FUNCTION /*schema*/skald_guard(held boolean, what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF held THEN
		RETURN true;
	END IF;
	RAISE EXCEPTION 'skald: the guard of % was lost', what USING ERRCODE = 'SK001';
END $$;

-- UUID of version 7 (RFC 9562): milliseconds of the clock, then random bits.
CREATE FUNCTION /*schema*/skald_uuid7() RETURNS uuid LANGUAGE sql VOLATILE AS $$
	SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
		PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
$$;

-- Headers are [[name, base64], ...]: names of 1 to 128 of A-Z a-z 0-9 . _ -, with their values at most 16 KiB.
CREATE FUNCTION /*schema*/skald_headers_ok(headers jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	h jsonb;
	size bigint := 0;
BEGIN
	IF jsonb_typeof(headers) <> 'array' THEN
		RETURN false;
	END IF;
	FOR h IN SELECT value FROM jsonb_array_elements(headers) LOOP
		IF jsonb_typeof(h) <> 'array' OR jsonb_array_length(h) <> 2
			OR jsonb_typeof(h -> 0) <> 'string' OR jsonb_typeof(h -> 1) <> 'string'
			OR length(h ->> 0) NOT BETWEEN 1 AND 128 OR (h ->> 0) COLLATE "C" ~ '[^A-Za-z0-9._-]' THEN
			RETURN false;
		END IF;
		size := size + length(h ->> 0) + octet_length(decode(h ->> 1, 'base64'));
	END LOOP;
	RETURN size <= 16384;
EXCEPTION WHEN invalid_parameter_value THEN
	RETURN false; -- not base64
END $$;

-- The limits of a row, one function for all: PostgreSQL prepares every constraint of a table anew for each statement,
-- and seven of them took as long as the INSERT itself. It says which limit is broken, as a constraint of its name.
CREATE FUNCTION /*schema*/skald_limits_ok(topic text, type text, key text, key_bytes bytea, data text, data_bytes bytea,
	subject text, headers jsonb, bucket smallint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
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

-- txid stands before seq on purpose: defaults are drawn in the order of the columns, and a relay needs a
-- transaction to have its number before it draws the first seq.
CREATE TABLE /*schema*/skald_outbox (
	topic          text NOT NULL,
	key            text,  -- NULL, and key_bytes too: no order promised
	type           text NOT NULL,
	data           text,  -- JSON and text; NULL, and data_bytes too: a tombstone
	data_bytes     bytea, -- every other content type
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
	bucket         smallint, -- NULL: hashed from the key, else the id, when read
	erased_at      timestamptz,
	PRIMARY KEY (seq, slot),
	CONSTRAINT skald_outbox_limits CHECK (/*schema*/skald_limits_ok(topic, type, key, key_bytes, data, data_bytes, subject, headers, bucket))
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

CREATE SEQUENCE /*schema*/skald_arrival CACHE 1; -- the order in which messages were handled

-- What each consumer has finished, in slots of two days by the time in the id. Statements name the slot.
CREATE TABLE /*schema*/skald_mark (
	consumer text NOT NULL,
	source   text NOT NULL,
	id       uuid NOT NULL,
	outcome  smallint NOT NULL, -- 1 done, 2 rejected
	reason   text,
	arrival  bigint NOT NULL DEFAULT nextval('/*schema*/skald_arrival'),
	at       timestamptz NOT NULL DEFAULT now(),
	slot     smallint NOT NULL,
	PRIMARY KEY (consumer, source, id, slot)
) PARTITION BY LIST (slot);

CREATE TABLE /*schema*/skald_mark_00 PARTITION OF /*schema*/skald_mark FOR VALUES IN (0);
CREATE TABLE /*schema*/skald_mark_01 PARTITION OF /*schema*/skald_mark FOR VALUES IN (1);
CREATE TABLE /*schema*/skald_mark_02 PARTITION OF /*schema*/skald_mark FOR VALUES IN (2);
CREATE TABLE /*schema*/skald_mark_03 PARTITION OF /*schema*/skald_mark FOR VALUES IN (3);
CREATE TABLE /*schema*/skald_mark_04 PARTITION OF /*schema*/skald_mark FOR VALUES IN (4);
CREATE TABLE /*schema*/skald_mark_05 PARTITION OF /*schema*/skald_mark FOR VALUES IN (5);
CREATE TABLE /*schema*/skald_mark_06 PARTITION OF /*schema*/skald_mark FOR VALUES IN (6);
CREATE TABLE /*schema*/skald_mark_07 PARTITION OF /*schema*/skald_mark FOR VALUES IN (7);
CREATE TABLE /*schema*/skald_mark_08 PARTITION OF /*schema*/skald_mark FOR VALUES IN (8);
CREATE TABLE /*schema*/skald_mark_09 PARTITION OF /*schema*/skald_mark FOR VALUES IN (9);
CREATE TABLE /*schema*/skald_mark_10 PARTITION OF /*schema*/skald_mark FOR VALUES IN (10);
CREATE TABLE /*schema*/skald_mark_11 PARTITION OF /*schema*/skald_mark FOR VALUES IN (11);
CREATE TABLE /*schema*/skald_mark_12 PARTITION OF /*schema*/skald_mark FOR VALUES IN (12);
CREATE TABLE /*schema*/skald_mark_13 PARTITION OF /*schema*/skald_mark FOR VALUES IN (13);
CREATE TABLE /*schema*/skald_mark_14 PARTITION OF /*schema*/skald_mark FOR VALUES IN (14);
CREATE TABLE /*schema*/skald_mark_15 PARTITION OF /*schema*/skald_mark FOR VALUES IN (15);
CREATE TABLE /*schema*/skald_mark_16 PARTITION OF /*schema*/skald_mark FOR VALUES IN (16);
CREATE TABLE /*schema*/skald_mark_17 PARTITION OF /*schema*/skald_mark FOR VALUES IN (17);

-- Marks of ids that are no UUID of version 7, or whose time lies more than an hour ahead.
CREATE TABLE /*schema*/skald_mark_timeless (
	consumer text NOT NULL,
	source   text NOT NULL,
	id       text NOT NULL,
	outcome  smallint NOT NULL,
	reason   text,
	arrival  bigint NOT NULL DEFAULT nextval('/*schema*/skald_arrival'),
	at       timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (consumer, source, id)
);
CREATE INDEX skald_mark_timeless_at ON /*schema*/skald_mark_timeless (at);

-- Locks on entities; the version is the fencing token.
CREATE TABLE /*schema*/skald_entity (
	space   text NOT NULL,
	key     bytea NOT NULL,
	version bigint NOT NULL,
	PRIMARY KEY (space, key)
) WITH (fillfactor = 70);

-- Ticks cut the outbox into windows: what a tick's snapshot saw, and what the tick before did not.
CREATE TABLE /*schema*/skald_tick (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	token    text NOT NULL,
	snapshot pg_snapshot NOT NULL,
	seq      bigint NOT NULL, -- the last one drawn, read behind the snapshot
	own      xid8 NOT NULL,   -- the tick's own transaction, numbered behind the reading of seq
	at       timestamptz NOT NULL
);

CREATE TABLE /*schema*/skald_lane (
	id           integer PRIMARY KEY,
	first_bucket smallint NOT NULL,
	last_bucket  smallint NOT NULL,
	epoch        bigint NOT NULL DEFAULT 0,
	token        text NOT NULL DEFAULT '',
	owner        text, -- owned while skald_relay has this owner alive, with this life
	life         text,
	base         text NOT NULL DEFAULT '',
	tip          text NOT NULL DEFAULT '',
	seq          bigint NOT NULL DEFAULT 0,
	incarnation  text NOT NULL DEFAULT '',
	changed_at   timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 20);
INSERT INTO /*schema*/skald_lane (id, first_bucket, last_bucket)
SELECT n, n * 64, n * 64 + 63 FROM generate_series(0, 15) AS n;

CREATE TABLE /*schema*/skald_relay (
	owner text PRIMARY KEY,
	life  text NOT NULL,
	until timestamptz NOT NULL
) WITH (fillfactor = 20);

-- Full copies of rows that the broker refused, and of those behind them.
CREATE TABLE /*schema*/skald_aside (
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
	why            text NOT NULL,
	due            timestamptz NOT NULL,
	erased_at      timestamptz
);
CREATE INDEX skald_aside_key ON /*schema*/skald_aside (topic, key, seq);
