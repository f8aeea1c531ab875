-- The tables and views of Skald in a SQLite file. Needs SQLite 3.51.3 or newer.
--
-- skald_outbox is a contract: from any language,
--   INSERT INTO skald_outbox (topic, key, type, data) VALUES ('orders', '42', 'order.placed', '{"id":42}')
-- is a complete, ordered, deliverable message. Write through SQLite only, with synchronous at FULL. The views are a contract,
-- too: docs/sql.md says what is.
-- The name of this database stands where /*source*/'' is (`skald migrate --source`).

-- 1. Settings

CREATE TABLE skald_setting (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO skald_setting (name, value) VALUES
	('recovery reason', ''), -- what a relay saw that must not be: that the file went back in time
	('fingerprint key', lower(hex(randomblob(32)))); -- of skald_mark.fingerprint

-- 2. The outbox

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
	CONSTRAINT skald_outbox_id CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 1024),
	CONSTRAINT skald_outbox_topic CHECK (length(topic) BETWEEN 1 AND 249 AND topic NOT GLOB '*[^A-Za-z0-9._-]*'),
	CONSTRAINT skald_outbox_key CHECK (coalesce(length(CAST(key AS BLOB)), length(CAST(key_bytes AS BLOB)), 0) <= 1024 AND (key IS NULL OR key_bytes IS NULL)),
	CONSTRAINT skald_outbox_type CHECK (length(CAST(type AS BLOB)) BETWEEN 1 AND 255 AND instr(type, char(10)) = 0 AND instr(type, char(13)) = 0),
	CONSTRAINT skald_outbox_data CHECK (coalesce(length(CAST(data AS BLOB)), length(CAST(data_bytes AS BLOB)), 0) <= 921600 AND (data IS NULL OR data_bytes IS NULL)),
	CONSTRAINT skald_outbox_subject CHECK (subject IS NULL OR (length(CAST(subject AS BLOB)) <= 1024 AND instr(subject, char(10)) = 0 AND instr(subject, char(13)) = 0)),
	CONSTRAINT skald_outbox_bucket CHECK (bucket IS NULL OR bucket BETWEEN 0 AND 1023)
) STRICT;

-- An older library would write, and might corrupt the file. Everything else that is checked here, an old one checks, too.
CREATE TRIGGER skald_outbox_engine BEFORE INSERT ON skald_outbox
WHEN (SELECT json_extract(v, '$[0]') * 1000000 + json_extract(v, '$[1]') * 1000 + json_extract(v, '$[2]')
	FROM (SELECT '[' || replace(sqlite_version(), '.', ',') || ']' AS v)) < 3051003
BEGIN
	SELECT RAISE(ABORT, 'skald_outbox_engine: write with SQLite 3.51.3 or newer: an older one can corrupt the file (sqlite.org/wal.html#walresetbug)');
END;

-- Headers: at most 1,024, names of 1 to 128 of A-Z a-z 0-9 . _ -, values in base64, together at most 16 KiB.
CREATE TRIGGER skald_outbox_headers BEFORE INSERT ON skald_outbox WHEN NEW.headers IS NOT NULL
BEGIN
	SELECT RAISE(ABORT, 'skald_outbox_headers: headers are not [[name, base64], …]')
	WHERE instr(NEW.headers, char(0)) > 0 OR instr(NEW.headers, '\u0000') > 0
		OR NOT json_valid(NEW.headers) OR json_type(NEW.headers) <> 'array';
	SELECT RAISE(ABORT, 'skald_outbox_headers: headers are not [[name, base64], …]') FROM json_each(NEW.headers) AS h
	WHERE h.type <> 'array' OR json_array_length(h.value) <> 2
		OR coalesce(json_type(h.value, '$[0]'), '') <> 'text' OR coalesce(json_type(h.value, '$[1]'), '') <> 'text';
	SELECT RAISE(ABORT, 'skald_outbox_headers: a header has a bad name or value') FROM json_each(NEW.headers) AS h
	WHERE length(h.value ->> 0) NOT BETWEEN 1 AND 128 OR h.value ->> 0 GLOB '*[^A-Za-z0-9._-]*'
		OR length(h.value ->> 1) % 4 <> 0 OR rtrim(h.value ->> 1, '=') GLOB '*[^A-Za-z0-9+/]*'
		OR length(h.value ->> 1) - length(rtrim(h.value ->> 1, '=')) > 2;
	SELECT RAISE(ABORT, 'skald_outbox_headers: there are more than 1024 headers') WHERE json_array_length(NEW.headers) > 1024;
	SELECT RAISE(ABORT, 'skald_outbox_headers: headers take more than 16384 bytes')
	WHERE (SELECT sum(length(h.value ->> 0) + length(rtrim(h.value ->> 1, '=')) * 3 / 4) FROM json_each(NEW.headers) AS h) > 16384;
END;

-- SQL reads text up to the first NUL, Go and brokers read all of it: a NUL is for data and the columns of bytes.
CREATE TRIGGER skald_outbox_text BEFORE INSERT ON skald_outbox
WHEN instr(NEW.id || NEW.source || NEW.topic || NEW.type || NEW.content_type || NEW.time || coalesce(NEW.key, '') || coalesce(NEW.schema, '')
	|| coalesce(NEW.subject, '') || coalesce(NEW.correlation_id, '') || coalesce(NEW.causation_id, '') || coalesce(NEW.traceparent, ''), char(0)) > 0
BEGIN
	SELECT RAISE(ABORT, 'skald_outbox_text: a column has a NUL in it, which only data, data_bytes and key_bytes may');
END;

-- A time is one that a relay can read.
CREATE TRIGGER skald_outbox_time BEFORE INSERT ON skald_outbox
WHEN NEW.time NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]:[0-9][0-9]*' OR NEW.time GLOB '0000*'
	OR instr(substr(NEW.time, 12), ' ') > 0 OR julianday(NEW.time) IS NULL
BEGIN
	SELECT RAISE(ABORT, 'skald_outbox_time: write a time as 2006-01-02T15:04:05Z, of the years 1 to 9999, or leave it out');
END;

-- The table alone gives out seq: a writer's own number may lie where no relay looks, or leave none for later rows. Before the INSERT a
-- seq that is to be given out reads as -1; after it -1 is an error, too.
CREATE TRIGGER skald_outbox_seq BEFORE INSERT ON skald_outbox WHEN NEW.seq <> -1
BEGIN
	SELECT RAISE(ABORT, 'skald_outbox_seq: leave seq out of the INSERT: it is given out by the table');
END;
CREATE TRIGGER skald_outbox_seq_given AFTER INSERT ON skald_outbox WHEN NEW.seq < 1
BEGIN
	SELECT RAISE(ABORT, 'skald_outbox_seq: leave seq out of the INSERT: it is given out by the table');
END;

-- A relay would have to read a row to find out that it is too large.
CREATE TRIGGER skald_outbox_sizes BEFORE INSERT ON skald_outbox
WHEN length(CAST(NEW.source AS BLOB)) > 1024 OR length(CAST(NEW.content_type AS BLOB)) > 255 OR length(CAST(NEW.schema AS BLOB)) > 1024
	OR length(CAST(NEW.correlation_id AS BLOB)) > 1024 OR length(CAST(NEW.causation_id AS BLOB)) > 1024
	OR length(CAST(NEW.traceparent AS BLOB)) > 1024 OR length(CAST(NEW.time AS BLOB)) > 64 OR length(CAST(NEW.headers AS BLOB)) > 65536
BEGIN
	SELECT RAISE(ABORT, 'skald_outbox_sizes: source, schema, headers or a stamp is larger than its limit');
END;

-- 3. The relay: how far the outbox is published

-- Relays that live.
CREATE TABLE skald_relay (
	owner   TEXT PRIMARY KEY,
	session TEXT NOT NULL,    -- random: another session of the same owner is another relay
	until   INTEGER NOT NULL, -- milliseconds since 1970, by this database's clock
	standby INTEGER NOT NULL DEFAULT 0 -- there is no shard for it. The more relays wait, the less often each looks for one
) STRICT, WITHOUT ROWID;

-- Shards are ranges of the 1024 buckets. A shard belongs to (owner, session) as long as that relay lives.
CREATE TABLE skald_shard (
	id           INTEGER PRIMARY KEY,
	first_bucket INTEGER NOT NULL,
	last_bucket  INTEGER NOT NULL,
	epoch        INTEGER NOT NULL DEFAULT 0,
	token        TEXT NOT NULL DEFAULT '',
	owner        TEXT,
	session      TEXT,
	base         TEXT NOT NULL DEFAULT '', -- all up to it is acknowledged; '' is the beginning
	tip          TEXT NOT NULL DEFAULT '', -- the end of the window in hand
	seq          INTEGER NOT NULL DEFAULT 0, -- how far in the window
	incarnation  TEXT NOT NULL DEFAULT '', -- of the broker that base, tip and seq speak of
	changed_at   INTEGER NOT NULL DEFAULT 0 -- milliseconds since 1970: when it was taken, or how far it has come was stored
) STRICT;

WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id < 15)
INSERT INTO skald_shard (id, first_bucket, last_bucket) SELECT id, id * 64, id * 64 + 63 FROM n;

-- Rows that the broker refused, or that wait behind one of their key.
CREATE TABLE skald_deferred (
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
	reason         TEXT NOT NULL,
	due            INTEGER NOT NULL, -- milliseconds since 1970, by this database's clock
	at             TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
	bytes          INTEGER, -- of a row that is too large to be read; there is no copy of it
	sha256         TEXT, -- of its data, where it is known
	held           BLOB GENERATED ALWAYS AS (coalesce(key_bytes, CAST(key AS BLOB))) STORED -- the key's bytes
) STRICT;

-- Tells of each key its first row, and of that all that decides when to try it.
CREATE INDEX skald_deferred_key ON skald_deferred (held, topic, seq, attempts, due, bucket);
CREATE INDEX skald_deferred_failed ON skald_deferred (held, topic, seq) WHERE attempts > 0;

-- 4. What consumers have finished

-- A consumer has finished a message.
CREATE TABLE skald_mark (
	arrival     INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of handling
	consumer    TEXT NOT NULL,
	source      TEXT NOT NULL,
	id          TEXT NOT NULL,
	outcome     INTEGER NOT NULL CHECK (outcome IN (1, 2, 3)), -- 1 done, 2 rejected, 3 barred
	reason      TEXT, -- of a rejection
	at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
	written     INTEGER NOT NULL, -- the later of at and of the time in the id, milliseconds since 1970: for retention
	fingerprint INTEGER, -- an HMAC of type and payload; NULL: the consumer compares nothing
	until       INTEGER, -- it stands until then, milliseconds since 1970, where the scope of a key has a retention of its own; NULL: as long as marks are kept
	UNIQUE (consumer, source, id)
) STRICT;
CREATE INDEX skald_mark_written ON skald_mark (written);
CREATE INDEX skald_mark_until ON skald_mark (until) WHERE until IS NOT NULL;

-- What a handler answered: written with the mark, and only where there is an answer. It goes with its mark.
CREATE TABLE skald_answer (
	arrival INTEGER PRIMARY KEY, -- of the mark
	outcome INTEGER NOT NULL, -- instead of the mark's
	reason  TEXT,
	code    INTEGER NOT NULL,
	result  BLOB,
	emitted TEXT, -- the messages that went with it, JSON, where repeats are to send them again
	headers TEXT -- of an HTTP answer, JSON
) STRICT;
CREATE TRIGGER skald_answer_delete AFTER DELETE ON skald_mark BEGIN DELETE FROM skald_answer WHERE arrival = OLD.arrival; END;

-- The latest mark of a consumer that was forgotten: an id of that time, or before it, that has no mark is too old.
CREATE TABLE skald_floor (
	consumer TEXT PRIMARY KEY,
	at       INTEGER NOT NULL -- milliseconds since 1970
) STRICT, WITHOUT ROWID;

-- Messages that a consumer can neither drop nor take before an operator decides.
CREATE TABLE skald_quarantine (
	number      INTEGER PRIMARY KEY AUTOINCREMENT,
	consumer    TEXT NOT NULL,
	source      TEXT NOT NULL,
	id          TEXT NOT NULL,
	fingerprint INTEGER NOT NULL,
	cause       INTEGER NOT NULL, -- -1 too old, -2 conflict
	topic       TEXT NOT NULL,
	type        TEXT NOT NULL,
	message     TEXT NOT NULL, -- all but the payload, as JSON
	at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
	admitted_at TEXT,
	admitted_by TEXT,
	reason      TEXT, -- why it was admitted
	taken_at    TEXT,
	data        BLOB, -- the payload as it came; NULL: a tombstone
	UNIQUE (consumer, source, id, fingerprint)
) STRICT;
CREATE INDEX skald_quarantine_admitted ON skald_quarantine (consumer, number) WHERE admitted_at IS NOT NULL AND taken_at IS NULL;
CREATE INDEX skald_quarantine_waiting ON skald_quarantine (number) WHERE taken_at IS NULL;

-- Entity locks: version is the fencing token.
CREATE TABLE skald_entity (
	space   TEXT NOT NULL,
	key     TEXT NOT NULL,
	version INTEGER NOT NULL,
	PRIMARY KEY (space, key)
) STRICT, WITHOUT ROWID;

-- A transaction that is lent to a handler has a row here whose reference leads nowhere, so that it cannot be
-- committed. Skald deletes the row when it commits: the table is always empty.
CREATE TABLE skald_commit_guard (
	id   INTEGER PRIMARY KEY,
	hold INTEGER NOT NULL REFERENCES skald_commit_guard (id) DEFERRABLE INITIALLY DEFERRED
) STRICT;

-- Steps of sagas: what took effect at a consumer, what is barred, and what was undone. A mark does not tell: a rejected message has one, too.
CREATE TABLE skald_step (
	consumer    TEXT NOT NULL,
	saga        TEXT NOT NULL,
	step        TEXT NOT NULL,
	occurrence  TEXT NOT NULL, -- which of several of the name
	state       INTEGER NOT NULL, -- 1 done, 2 calling, 3 parked, 4 dead, 5 rejected, 6 barred, 7 undone
	was         INTEGER NOT NULL DEFAULT 0, -- before a message last took it in hand
	source      TEXT, -- the message that took it, or waits to
	id          TEXT,
	by_source   TEXT, -- the message that undid or barred it
	by_id       TEXT,
	begun       INTEGER, -- when its saga began, milliseconds since 1970; NULL: nobody said
	code        INTEGER, -- what was answered when it was taken
	result      BLOB,
	outside_key TEXT, -- of a call outside
	outcome     BLOB, -- of that call
	at          INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
	changed_at  INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
	PRIMARY KEY (consumer, saga, step, occurrence)
) STRICT, WITHOUT ROWID;
CREATE INDEX skald_step_at ON skald_step (at);

-- The time before which steps of the name may be forgotten: one that is not there, of a saga that began before it, is too old.
CREATE TABLE skald_step_floor (
	consumer TEXT NOT NULL,
	step     TEXT NOT NULL,
	at       INTEGER NOT NULL, -- milliseconds since 1970
	PRIMARY KEY (consumer, step)
) STRICT, WITHOUT ROWID;

-- 5. Parked messages and dead letters

-- Messages that a consumer failed on, and those of their keys behind them: parked until their turn comes, or dead letters.
-- Of a key (of any topic) the first by place is tried; those behind it wait.
CREATE TABLE skald_parked (
	place         INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of arrival
	consumer      TEXT NOT NULL,
	source        TEXT NOT NULL,
	id            TEXT NOT NULL,
	key           BLOB, -- NULL: it waits for nobody, and nobody for it
	topic         TEXT NOT NULL,
	type          TEXT NOT NULL,
	data          BLOB, -- the payload as it came; NULL: a tombstone
	envelope      BLOB NOT NULL, -- all else of the message, as JSON
	bytes         INTEGER NOT NULL, -- of key and data
	partition     TEXT NOT NULL, -- where it came from at the broker
	position      INTEGER NOT NULL,
	fault         TEXT NOT NULL, -- why its envelope could not be read
	attempts      INTEGER NOT NULL, -- that failed and were charged; 0: it only waits
	due           INTEGER NOT NULL, -- when to try it, once it is the first of its key; milliseconds since 1970
	waiting       INTEGER NOT NULL, -- others of its key are before it
	blocks_key    INTEGER NOT NULL, -- the messages of its key behind it wait for it
	since         INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
	first_at      TEXT,
	first_error   TEXT NOT NULL,
	first_host    TEXT NOT NULL,
	last_at       TEXT,
	last_error    TEXT NOT NULL,
	last_host     TEXT NOT NULL,
	dead_at       TEXT, -- it is a dead letter
	kind          TEXT NOT NULL, -- why: attempts, age, malformed, permanent, …
	fingerprint   TEXT NOT NULL, -- equal for failures of one kind
	stack         TEXT NOT NULL, -- of a panic
	version       TEXT NOT NULL, -- of the program
	running_count INTEGER NOT NULL, -- running number and bytes within the key: what lies between two rows is a subtraction
	running_bytes INTEGER NOT NULL,
	erased_at     TEXT,
	call          TEXT, -- a call to the outside, as JSON: {"key", "request", "since", "outcome", "undo"}; NULL: none
	claims        INTEGER NOT NULL DEFAULT 0, -- how often it was claimed without an answer since
	claimed_by    TEXT NOT NULL DEFAULT '', -- the session of the process that claimed it last
	crash_count   INTEGER NOT NULL DEFAULT 0, -- how often its process ended while it ran nothing but this message
	prefetched_to INTEGER, -- the place of the last message that was read along when it was claimed; NULL: none was
	UNIQUE (consumer, source, id)
) STRICT;
CREATE INDEX skald_parked_due ON skald_parked (consumer, due) WHERE dead_at IS NULL AND waiting = 0;
CREATE INDEX skald_parked_key ON skald_parked (consumer, key, place) WHERE key IS NOT NULL AND blocks_key = 1;
CREATE INDEX skald_parked_front ON skald_parked (consumer, key, place) WHERE key IS NOT NULL AND blocks_key = 1 AND waiting = 0;
CREATE INDEX skald_parked_dead ON skald_parked (consumer, fingerprint, place) WHERE dead_at IS NOT NULL;
CREATE INDEX skald_parked_failed ON skald_parked (consumer, place) WHERE attempts > 0 AND dead_at IS NULL;
CREATE INDEX skald_parked_call ON skald_parked (consumer, place) WHERE call IS NOT NULL;

-- What operators did to parked messages and dead letters.
CREATE TABLE skald_audit (
	seq      INTEGER PRIMARY KEY AUTOINCREMENT,
	at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
	author   TEXT NOT NULL, -- as the operator's command says
	reason   TEXT NOT NULL,
	action   TEXT NOT NULL, -- redrive, release, drop, import
	consumer TEXT NOT NULL,
	source   TEXT NOT NULL,
	id       TEXT NOT NULL,
	run      TEXT NOT NULL DEFAULT '' -- the redrive of which it is a part: one that ended half way goes on from here
) STRICT;
CREATE INDEX skald_audit_run ON skald_audit (run, seq) WHERE run <> '';

-- 6. Consumers

-- How far consumers are in the partitions of the broker, and which process has these.
CREATE TABLE skald_checkpoint (
	consumer      TEXT NOT NULL,
	partition     TEXT NOT NULL,
	origin        TEXT NOT NULL, -- what its positions speak of: a topic that was made again has another one
	position      INTEGER NOT NULL, -- the first that is not finished; -1: not known yet
	in_flight_end INTEGER NOT NULL, -- the first of which nothing was begun, for certain
	session       TEXT NOT NULL, -- of who has the partition; empty: it was left in peace
	stamp         TEXT NOT NULL, -- the name of what was stored last: no two are equal
	at            INTEGER NOT NULL, -- milliseconds since 1970
	crash_suspect INTEGER NOT NULL DEFAULT 0, -- the end of what may have been in hand when an earlier owner ended: only these are suspected of a crash
	PRIMARY KEY (consumer, partition)
) STRICT, WITHOUT ROWID;

-- Which types of messages the processes of a consumer handle, so that one of another build leaves to them what it does not know.
CREATE TABLE skald_handled_type (
	consumer TEXT NOT NULL,
	topic    TEXT NOT NULL,
	type     TEXT NOT NULL,
	at       INTEGER NOT NULL, -- milliseconds since 1970: when a process that handles it was last heard of
	PRIMARY KEY (consumer, topic, type)
) STRICT, WITHOUT ROWID;

-- When consumers were last heard of and last got on: any process of the database can tell of one that is gone or stuck.
CREATE TABLE skald_consumer (
	consumer    TEXT PRIMARY KEY,
	heard_at    INTEGER NOT NULL, -- milliseconds since 1970: when one of its processes last gave a sign of life
	progress_at INTEGER NOT NULL  -- when one of them last acknowledged something
) STRICT, WITHOUT ROWID;

-- 7. Retention

-- Work that one process at a time does, which one does it, and until when.
CREATE TABLE skald_lease (
	name  TEXT PRIMARY KEY, -- retention
	owner TEXT NOT NULL,
	until INTEGER NOT NULL -- milliseconds since 1970
) STRICT, WITHOUT ROWID;

-- When the retention last looked at a table, and last deleted something; milliseconds since 1970.
CREATE TABLE skald_retention_run (
	name       TEXT PRIMARY KEY, -- of the table
	ran_at     INTEGER,
	removed_at INTEGER,
	keep       INTEGER -- how long the retention keeps what is in it, as it last said, in milliseconds
) STRICT, WITHOUT ROWID;
INSERT INTO skald_retention_run (name) VALUES ('skald_outbox'), ('skald_mark'), ('skald_quarantine'), ('skald_step'), ('skald_saga');

-- 8. Views: what an operator reads. None of them reads the whole outbox.

-- How far each shard has come: what has a seq up to "published_to" is published.
CREATE VIEW skald_shard_position AS
SELECT id AS shard, first_bucket, last_bucket,
	max(CAST(base AS INTEGER), CASE WHEN tip IN ('', base) THEN 0 ELSE min(seq, CAST(tip AS INTEGER)) END) AS published_to
FROM skald_shard;

-- Each row that is kept. Of 10 million rows it is cheap for a seq, for a range of seqs, and for ORDER BY seq with LIMIT.
-- A row with no bucket (another language wrote it) is published when every shard is past it.
CREATE VIEW skald_outbox_state AS
SELECT o.seq, o.id, o.topic, o.key, o.key_bytes, o.type, o.time, p.shard,
	CASE WHEN a.seq IS NOT NULL THEN 'deferred'
		WHEN o.seq <= coalesce(p.published_to, (SELECT min(published_to) FROM skald_shard_position)) THEN 'published'
		ELSE 'pending' END AS state,
	NULL AS snapshot, NULL AS snapshot_at,
	a.attempts, a.reason, strftime('%Y-%m-%dT%H:%M:%fZ', a.due / 1000.0, 'unixepoch') AS due
FROM skald_outbox AS o
LEFT JOIN skald_shard_position AS p ON o.bucket BETWEEN p.first_bucket AND p.last_bucket
LEFT JOIN skald_deferred AS a ON a.seq = o.seq;

-- The rows that no relay has published yet: as cheap as they are few.
CREATE VIEW skald_outbox_pending AS
SELECT o.seq, o.id, o.topic, o.key, o.key_bytes, o.type, o.time, p.shard
FROM skald_outbox AS o LEFT JOIN skald_shard_position AS p ON o.bucket BETWEEN p.first_bucket AND p.last_bucket
WHERE o.seq > (SELECT min(published_to) FROM skald_shard_position) AND o.seq > coalesce(p.published_to, 0)
	AND NOT EXISTS (SELECT 1 FROM skald_deferred AS a WHERE a.seq = o.seq);

-- The last 10,000 numbers are looked at row by row. Of a shard that is farther behind, what lies before them is
-- estimated: the distance, times the shard's share of the buckets. shard is NULL for rows with no bucket.
CREATE VIEW skald_shard_pending AS
WITH near (seq) AS (
	SELECT max((SELECT min(published_to) FROM skald_shard_position), coalesce((SELECT max(seq) FROM skald_outbox), 0) - 10000)
), few (shard, n, oldest_at) AS (
	SELECT p.shard, count(*), min(o.time)
	FROM skald_outbox AS o LEFT JOIN skald_shard_position AS p ON o.bucket BETWEEN p.first_bucket AND p.last_bucket
	WHERE o.seq > (SELECT seq FROM near) AND o.seq > coalesce(p.published_to, 0)
	GROUP BY p.shard
)
SELECT p.shard, coalesce(f.n, 0) + CAST(round(max(near.seq - p.published_to, 0) * (p.last_bucket - p.first_bucket + 1) / 1024.0) AS INTEGER) AS pending,
	p.published_to >= near.seq AS exact,
	CASE WHEN p.published_to >= near.seq THEN f.oldest_at ELSE
		-- The shard's first row behind its place, among a thousand; else anybody's first.
		(SELECT time FROM (SELECT * FROM skald_outbox AS o WHERE o.seq > p.published_to ORDER BY o.seq LIMIT 1000)
			ORDER BY bucket BETWEEN p.first_bucket AND p.last_bucket DESC, seq LIMIT 1) END AS oldest_at
FROM skald_shard_position AS p CROSS JOIN near LEFT JOIN few AS f ON f.shard = p.shard
UNION ALL
SELECT NULL, n, 1, oldest_at FROM few WHERE shard IS NULL;

CREATE VIEW skald_shards AS
SELECT l.id AS shard, l.first_bucket, l.last_bucket, r.owner, l.epoch,
	strftime('%Y-%m-%dT%H:%M:%fZ', r.until / 1000.0, 'unixepoch') AS lease_until, p.pending, p.exact, p.oldest_at,
	(SELECT count(*) FROM skald_deferred AS a WHERE a.bucket BETWEEN l.first_bucket AND l.last_bucket) AS deferred
FROM skald_shard AS l JOIN skald_shard_pending AS p ON p.shard = l.id
LEFT JOIN skald_relay AS r ON r.owner = l.owner AND r.session = l.session AND r.until > unixepoch('subsec') * 1000;

CREATE VIEW skald_backlog AS
SELECT sum(pending) AS pending, min(exact) AS exact, min(oldest_at) AS oldest_at,
	max(coalesce(unixepoch('subsec') - unixepoch(min(oldest_at), 'subsec'), 0), 0) AS oldest_seconds,
	(SELECT count(*) FROM skald_deferred) AS deferred
FROM skald_shard_pending;

CREATE VIEW skald_keys AS
SELECT m.consumer, m.source, m.id AS key,
	CASE coalesce(a.outcome, m.outcome) WHEN 1 THEN 'done' WHEN 2 THEN 'rejected' WHEN 3 THEN 'barred' ELSE 'other' END AS status,
	a.code, a.result, coalesce(a.reason, m.reason) AS reason, m.fingerprint, m.at, m.arrival, a.headers, m.until
FROM skald_mark AS m LEFT JOIN skald_answer AS a ON a.arrival = m.arrival;

CREATE VIEW skald_quarantined AS
SELECT number, consumer, source, id, CASE cause WHEN -1 THEN 'too old' ELSE 'conflict' END AS cause, topic, type, at,
	unixepoch('subsec') - unixepoch(at, 'subsec') AS seconds, admitted_at, admitted_by, reason, message, data
FROM skald_quarantine WHERE taken_at IS NULL;

CREATE VIEW skald_steps AS
SELECT s.consumer, s.saga, s.step, s.occurrence, CASE s.state WHEN 1 THEN 'done' WHEN 2 THEN 'calling' WHEN 5 THEN 'rejected' WHEN 6 THEN 'barred'
	WHEN 7 THEN 'undone' ELSE CASE WHEN p.place IS NULL THEN 'dropped' WHEN p.dead_at IS NULL THEN 'parked' ELSE 'dead' END END AS state,
	s.source, s.id, s.by_source, s.by_id, s.code, s.result, s.outside_key, s.outcome,
	strftime('%Y-%m-%dT%H:%M:%fZ', s.begun / 1000.0, 'unixepoch') AS begun, strftime('%Y-%m-%dT%H:%M:%fZ', s.at / 1000.0, 'unixepoch') AS at,
	strftime('%Y-%m-%dT%H:%M:%fZ', s.changed_at / 1000.0, 'unixepoch') AS changed_at
FROM skald_step AS s LEFT JOIN skald_parked AS p ON p.consumer = s.consumer AND p.source = s.source AND p.id = s.id AND s.state IN (3, 4);

-- Dead letters, without their payloads.
CREATE VIEW skald_dead AS
SELECT place, consumer, source, id, topic, type, key, attempts, dead_at, kind, fingerprint, last_error, last_host, first_at, first_error,
	version, blocks_key AND key IS NOT NULL AS blocks_key
FROM skald_parked WHERE dead_at IS NOT NULL;

-- Calls to the outside whose outcome is not known.
CREATE VIEW skald_calls AS
SELECT place, consumer, source, id, topic, type, key, call ->> '$.key' AS outside_key, call ->> '$.since' AS since,
	max(unixepoch('subsec') - unixepoch(call ->> '$.since', 'subsec'), 0) AS seconds, attempts, due, last_error, dead_at
FROM skald_parked WHERE call IS NOT NULL;

-- What is kept for each consumer because it could not be taken. It reads what is parked, dead or in quarantine, and nothing else.
CREATE VIEW skald_consumers AS
SELECT consumer, sum(parked) AS parked, sum(parked_bytes) AS parked_bytes,
	strftime('%Y-%m-%dT%H:%M:%fZ', min(parked_at), 'unixepoch') AS parked_at, max(coalesce(unixepoch('subsec') - min(parked_at), 0), 0) AS parked_seconds,
	sum(dead) AS dead, sum(dead_bytes) AS dead_bytes, min(dead_at) AS dead_at, sum(conflicts) AS conflicts, sum(too_old) AS too_old,
	sum(quarantined_bytes) AS quarantined_bytes, min(quarantined_at) AS quarantined_at, max(coalesce(unixepoch('subsec') - unixepoch(min(quarantined_at), 'subsec'), 0), 0) AS quarantined_seconds
FROM (
	SELECT consumer, sum(dead_at IS NULL) AS parked, coalesce(sum(CASE WHEN dead_at IS NULL THEN bytes END), 0) AS parked_bytes,
		min(CASE WHEN dead_at IS NULL THEN since END) / 1000.0 AS parked_at, sum(dead_at IS NOT NULL) AS dead,
		coalesce(sum(CASE WHEN dead_at IS NOT NULL THEN bytes END), 0) AS dead_bytes, min(dead_at) AS dead_at,
		0 AS conflicts, 0 AS too_old, 0 AS quarantined_bytes, NULL AS quarantined_at
	FROM skald_parked GROUP BY consumer
	UNION ALL
	SELECT consumer, 0, 0, NULL, 0, 0, NULL, sum(cause = -2), sum(cause = -1), coalesce(sum(length(data)), 0), min(at)
	FROM skald_quarantine WHERE taken_at IS NULL AND admitted_at IS NULL GROUP BY consumer
) AS k GROUP BY consumer;

-- Consumers, and relays that own shards.
CREATE VIEW skald_progress AS
SELECT 'consumer' AS kind, consumer AS name, strftime('%Y-%m-%dT%H:%M:%fZ', heard / 1000.0, 'unixepoch') AS heard_at,
	max(unixepoch('subsec') - heard / 1000.0, 0) AS heard_seconds,
	strftime('%Y-%m-%dT%H:%M:%fZ', progress_at / 1000.0, 'unixepoch') AS progress_at,
	max(unixepoch('subsec') - progress_at / 1000.0, 0) AS progress_seconds, topics
FROM (SELECT c.consumer, c.progress_at, max(c.heard_at, coalesce((SELECT max(at) FROM skald_handled_type AS t WHERE t.consumer = c.consumer), 0)) AS heard,
		(SELECT json_group_array(topic) FROM (SELECT DISTINCT topic FROM skald_handled_type AS t WHERE t.consumer = c.consumer ORDER BY topic)) AS topics
	FROM skald_consumer AS c)
UNION ALL
SELECT 'relay', owner, NULL, NULL, strftime('%Y-%m-%dT%H:%M:%fZ', max(changed_at) / 1000.0, 'unixepoch'), max(unixepoch('subsec') - max(changed_at) / 1000.0, 0), '[]'
FROM skald_shard WHERE owner IS NOT NULL GROUP BY owner;

CREATE VIEW skald_retention AS
SELECT m.name, strftime('%Y-%m-%dT%H:%M:%fZ', m.ran_at / 1000.0, 'unixepoch') AS ran_at,
	unixepoch('subsec') - m.ran_at / 1000.0 AS ran_seconds,
	strftime('%Y-%m-%dT%H:%M:%fZ', m.removed_at / 1000.0, 'unixepoch') AS removed_at,
	unixepoch('subsec') - m.removed_at / 1000.0 AS removed_seconds,
	o.at AS oldest_at, unixepoch('subsec') - unixepoch(o.at, 'subsec') AS oldest_seconds, m.keep / 1000.0 AS keep_seconds
FROM skald_retention_run AS m LEFT JOIN (
	SELECT 'skald_outbox' AS name, (SELECT stored_at FROM skald_outbox ORDER BY seq LIMIT 1) AS at
	UNION ALL
	SELECT 'skald_mark', (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', min(written) / 1000.0, 'unixepoch') FROM skald_mark)
) AS o ON o.name = m.name;

-- 9. Schemas of payloads

-- What payloads were written with, by the id that came with them, as a registry told it: parked messages and dead letters stay readable
-- when the registry is gone. An id means one schema for ever; nothing deletes them.
CREATE TABLE skald_payload_schema (
	registry   TEXT NOT NULL, -- whose id; empty where there is one registry
	id         TEXT NOT NULL, -- a number or a GUID
	definition TEXT NOT NULL, -- JSON: format, text, imports
	at         INTEGER NOT NULL, -- milliseconds since 1970
	PRIMARY KEY (registry, id)
) STRICT, WITHOUT ROWID;

-- 10. Keys that are reserved

-- A key that work outside of a transaction has in hand. Whoever comes once the lease has ended takes it over, under a token of its own.
CREATE TABLE skald_reservation (
	consumer    TEXT NOT NULL,
	source      TEXT NOT NULL,
	id          TEXT NOT NULL,
	fingerprint INTEGER,
	token       TEXT NOT NULL,
	at          INTEGER NOT NULL, -- when it was taken, and until: milliseconds since 1970
	until       INTEGER NOT NULL,
	PRIMARY KEY (consumer, source, id)
) STRICT, WITHOUT ROWID;

-- 11. Choreographed sagas

-- How each stands that a tracker has heard of.
CREATE TABLE skald_tracked (
	key        TEXT NOT NULL,
	flow       TEXT NOT NULL,
	state      TEXT NOT NULL DEFAULT '',
	due        INTEGER, -- it is overdue from then on, milliseconds since 1970; NULL: never
	drift      INTEGER NOT NULL DEFAULT 0, -- how many things are in it that the flow does not allow
	drifted_at INTEGER, -- when drift last grew, milliseconds since 1970; NULL: there is none
	body       TEXT NOT NULL DEFAULT '', -- JSON: what was seen, and what follows from that
	at         INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
	changed_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
	PRIMARY KEY (key, flow)
) STRICT, WITHOUT ROWID;
-- For counts, and for lists of what went wrong.
CREATE INDEX skald_tracked_live ON skald_tracked (flow, state, due) WHERE state IN ('running', 'compensating');
CREATE INDEX skald_tracked_drifted ON skald_tracked (flow, drifted_at) WHERE drifted_at IS NOT NULL;

-- 12. Orchestrated sagas

-- How each stands: a row. Times are milliseconds since 1970. What is large stands last.
CREATE TABLE skald_saga (
	name        TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 255), -- of its definition
	key         TEXT NOT NULL CHECK (length(CAST(key AS BLOB)) BETWEEN 1 AND 255),
	id          TEXT NOT NULL, -- another one each time that a saga of the key is started
	hash        TEXT NOT NULL, -- of the definition that wrote state
	version     INTEGER NOT NULL, -- grows with each write
	fingerprint INTEGER NOT NULL, -- of input
	status      TEXT NOT NULL, -- running, compensating, done, compensated
	stuck       INTEGER NOT NULL,
	paused      INTEGER NOT NULL,
	failed      INTEGER NOT NULL, -- attempts in a row
	since       INTEGER, -- of the first failure in a row
	retry       INTEGER, -- when what failed is tried again
	session     TEXT NOT NULL, -- has the saga leased until due; empty: none has
	due         INTEGER, -- NULL: not before somebody writes the saga
	started_at  INTEGER NOT NULL,
	changed_at  INTEGER NOT NULL,
	ended_at    INTEGER,
	step        TEXT NOT NULL,
	error       TEXT NOT NULL,
	state       TEXT NOT NULL, -- JSON
	origin      TEXT NOT NULL, -- never changes
	input       TEXT NOT NULL, -- JSON; never changes
	PRIMARY KEY (name, key)
) STRICT;
CREATE INDEX skald_saga_due ON skald_saga (hash, due) WHERE due IS NOT NULL;
CREATE INDEX skald_saga_live ON skald_saga (status, stuck, paused, retry IS NOT NULL, name, started_at) WHERE ended_at IS NULL;
CREATE INDEX skald_saga_ended ON skald_saga (ended_at) WHERE ended_at IS NOT NULL;

-- Lines for entities: the saga with the smallest place holds the entity.
CREATE TABLE skald_hold (
	space    TEXT NOT NULL, -- as in skald_entity
	key      TEXT NOT NULL,
	place    INTEGER NOT NULL,
	holder   TEXT NOT NULL, -- id of the saga, or of the one at the top of its family
	name     TEXT NOT NULL, -- the saga that waits
	saga_key TEXT NOT NULL,
	since    INTEGER NOT NULL,
	PRIMARY KEY (space, key, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX skald_hold_holder ON skald_hold (holder);

-- What engines know, as they wrote it.
CREATE TABLE skald_saga_definition (
	name     TEXT NOT NULL,
	hash     TEXT NOT NULL,
	number   INTEGER NOT NULL, -- in which order the first engine noted each of the name; never changes
	written  TEXT NOT NULL, -- JSON
	noted_at INTEGER NOT NULL, -- when an engine last knew it
	PRIMARY KEY (name, hash)
) STRICT, WITHOUT ROWID;

CREATE VIEW skald_sagas AS
SELECT name, key, id, status, stuck, paused, step, error, failed, since, retry, started_at, changed_at, ended_at,
	(coalesce(ended_at, CAST(unixepoch('subsec') * 1000 AS INTEGER)) - started_at) / 1000.0 AS seconds,
	session, due, coalesce(max(CAST(unixepoch('subsec') * 1000 AS INTEGER) - due, 0), 0) / 1000.0 AS overdue_seconds,
	version, hash, input, state
FROM skald_saga;
