-- The tables of Skald in a SQLite file. Needs SQLite 3.51.3 or newer.
--
-- skald_outbox is a contract: from any language,
--   INSERT INTO skald_outbox (topic, key, type, data) VALUES ('orders', '42', 'order.placed', '{"id":42}')
-- is a complete, ordered, deliverable message. Write through SQLite only, with synchronous at FULL.
-- The name of this database stands where /*source*/'' is (`skald migrate --source`).

CREATE TABLE skald_outbox (
	seq            INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of commits; never used twice, not even after retention
	id             TEXT NOT NULL DEFAULT (lower(printf('%08x-%04x-7%s-%s%s-%s',
		CAST(unixepoch('subsec') * 1000 AS INTEGER) >> 16, CAST(unixepoch('subsec') * 1000 AS INTEGER) & 65535,
		substr(hex(randomblob(2)), 2), substr('89ab', 1 + (random() & 3), 1), substr(hex(randomblob(2)), 2), hex(randomblob(6))))),
	source         TEXT NOT NULL DEFAULT /*source*/'',
	topic          TEXT NOT NULL,
	key            TEXT, -- NULL, and key_bytes too: no order promised
	key_bytes      BLOB, -- a key that is not UTF-8
	type           TEXT NOT NULL,
	data           TEXT, -- JSON and text; NULL, and data_bytes too: a tombstone
	data_bytes     BLOB, -- every other content type
	content_type   TEXT NOT NULL DEFAULT 'application/json',
	schema         TEXT,
	subject        TEXT,
	correlation_id TEXT,
	causation_id   TEXT,
	traceparent    TEXT,
	headers        TEXT, -- [[name, base64], …], in order
	time           TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
	bucket         INTEGER, -- NULL: hashed from the key, else the id, when read
	erased_at      TEXT,
	stored_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), -- by this database's clock: for retention
	CONSTRAINT skald_outbox_id CHECK (octet_length(id) BETWEEN 1 AND 1024),
	CONSTRAINT skald_outbox_topic CHECK (length(topic) BETWEEN 1 AND 249 AND topic NOT GLOB '*[^A-Za-z0-9._-]*'),
	CONSTRAINT skald_outbox_key CHECK (coalesce(octet_length(key), octet_length(key_bytes), 0) <= 1024 AND (key IS NULL OR key_bytes IS NULL)),
	CONSTRAINT skald_outbox_type CHECK (octet_length(type) BETWEEN 1 AND 255 AND instr(type, char(10)) = 0 AND instr(type, char(13)) = 0),
	CONSTRAINT skald_outbox_data CHECK (coalesce(octet_length(data), octet_length(data_bytes), 0) <= 921600 AND (data IS NULL OR data_bytes IS NULL)),
	CONSTRAINT skald_outbox_subject CHECK (subject IS NULL OR (octet_length(subject) <= 1024 AND instr(subject, char(10)) = 0 AND instr(subject, char(13)) = 0)),
	CONSTRAINT skald_outbox_bucket CHECK (bucket IS NULL OR bucket BETWEEN 0 AND 1023)
) STRICT;

-- Headers: names of 1 to 128 of A-Z a-z 0-9 . _ -, values in base64, together at most 16 KiB.
CREATE TRIGGER skald_outbox_headers BEFORE INSERT ON skald_outbox WHEN NEW.headers IS NOT NULL
BEGIN
	SELECT RAISE(ABORT, 'skald_outbox_headers: headers are not [[name, base64], …]')
	WHERE NOT json_valid(NEW.headers) OR json_type(NEW.headers) <> 'array';
	SELECT RAISE(ABORT, 'skald_outbox_headers: headers are not [[name, base64], …]') FROM json_each(NEW.headers) AS h
	WHERE h.type <> 'array' OR json_array_length(h.value) <> 2
		OR coalesce(json_type(h.value, '$[0]'), '') <> 'text' OR coalesce(json_type(h.value, '$[1]'), '') <> 'text';
	SELECT RAISE(ABORT, 'skald_outbox_headers: a header has a bad name or value') FROM json_each(NEW.headers) AS h
	WHERE length(h.value ->> 0) NOT BETWEEN 1 AND 128 OR h.value ->> 0 GLOB '*[^A-Za-z0-9._-]*'
		OR length(h.value ->> 1) % 4 <> 0 OR rtrim(h.value ->> 1, '=') GLOB '*[^A-Za-z0-9+/]*'
		OR length(h.value ->> 1) - length(rtrim(h.value ->> 1, '=')) > 2;
	SELECT RAISE(ABORT, 'skald_outbox_headers: headers take more than 16384 bytes')
	WHERE (SELECT sum(length(h.value ->> 0) + length(rtrim(h.value ->> 1, '=')) * 3 / 4) FROM json_each(NEW.headers) AS h) > 16384;
END;

-- A consumer has finished a message.
CREATE TABLE skald_mark (
	arrival  INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of handling
	consumer TEXT NOT NULL,
	source   TEXT NOT NULL,
	id       TEXT NOT NULL,
	outcome  INTEGER NOT NULL CHECK (outcome IN (1, 2)), -- 1 done, 2 rejected
	reason   TEXT, -- of a rejection
	at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
	written  INTEGER NOT NULL, -- when the message was written, as far as its id tells, else at; milliseconds since 1970
	UNIQUE (consumer, source, id)
) STRICT;

CREATE INDEX skald_mark_written ON skald_mark (written);

-- Entity locks: version is the fencing token.
CREATE TABLE skald_entity (
	space   TEXT NOT NULL,
	key     TEXT NOT NULL,
	version INTEGER NOT NULL,
	PRIMARY KEY (space, key)
) STRICT, WITHOUT ROWID;

-- A transaction that is lent to a handler has a row here whose reference leads nowhere, so that it cannot be
-- committed. Skald deletes the row when it commits: the table is always empty.
CREATE TABLE skald_lent (
	id   INTEGER PRIMARY KEY,
	hold INTEGER NOT NULL REFERENCES skald_lent (id) DEFERRABLE INITIALLY DEFERRED
) STRICT;

-- Relays that live: an instance's heartbeat.
CREATE TABLE skald_relay (
	owner TEXT PRIMARY KEY,
	life  TEXT NOT NULL,    -- random: another life of the same owner is another relay
	until INTEGER NOT NULL  -- milliseconds since 1970, by this database's clock
) STRICT, WITHOUT ROWID;

-- Lanes are ranges of the 1024 buckets. A lane belongs to (owner, life) as long as that relay lives.
CREATE TABLE skald_lane (
	id           INTEGER PRIMARY KEY,
	first_bucket INTEGER NOT NULL,
	last_bucket  INTEGER NOT NULL,
	epoch        INTEGER NOT NULL DEFAULT 0,
	token        TEXT NOT NULL DEFAULT '',
	owner        TEXT,
	life         TEXT,
	base         TEXT NOT NULL DEFAULT '', -- all up to it is acknowledged; '' is the beginning
	tip          TEXT NOT NULL DEFAULT '', -- the end of the window in hand
	seq          INTEGER NOT NULL DEFAULT 0, -- how far in the window
	incarnation  TEXT NOT NULL DEFAULT ''  -- of the broker that base, tip and seq speak of
) STRICT;

WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id < 15)
INSERT INTO skald_lane (id, first_bucket, last_bucket) SELECT id, id * 64, id * 64 + 63 FROM n;

-- Rows that the broker refused, or that wait behind one of their key.
CREATE TABLE skald_aside (
	seq            INTEGER PRIMARY KEY,
	id             TEXT NOT NULL,
	source         TEXT NOT NULL,
	topic          TEXT NOT NULL,
	key            TEXT,
	key_bytes      BLOB,
	type           TEXT NOT NULL,
	data           TEXT,
	data_bytes     BLOB,
	content_type   TEXT NOT NULL,
	schema         TEXT,
	subject        TEXT,
	correlation_id TEXT,
	causation_id   TEXT,
	traceparent    TEXT,
	headers        TEXT,
	time           TEXT NOT NULL,
	bucket         INTEGER NOT NULL,
	erased_at      TEXT,
	attempts       INTEGER NOT NULL, -- 0: it only waits
	why            TEXT NOT NULL,
	due            INTEGER NOT NULL, -- milliseconds since 1970, by this database's clock
	at             TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
	held           BLOB GENERATED ALWAYS AS (coalesce(key_bytes, CAST(key AS BLOB))) STORED -- the key's bytes
) STRICT;

-- Tells of each key its first row, and of that all that decides when to try it.
CREATE INDEX skald_aside_held ON skald_aside (held, topic, seq, attempts, due, bucket);
CREATE INDEX skald_aside_tried ON skald_aside (held, topic, seq) WHERE attempts > 0;
