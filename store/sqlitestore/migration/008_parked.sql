-- Messages that a consumer failed on, and those of their keys behind them: parked until their turn comes, or dead letters.
-- Of a key (of any topic) the first by place is tried; those behind it wait.
CREATE TABLE skald_parked (
	place       INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of arrival
	consumer    TEXT NOT NULL,
	source      TEXT NOT NULL,
	id          TEXT NOT NULL,
	key         BLOB, -- NULL: it waits for nobody, and nobody for it
	topic       TEXT NOT NULL,
	type        TEXT NOT NULL,
	data        BLOB, -- the payload as it came; NULL: a tombstone
	envelope    BLOB NOT NULL, -- all else of the message, as JSON
	bytes       INTEGER NOT NULL, -- of key and data
	lane        TEXT NOT NULL, -- where it came from at the broker
	position    INTEGER NOT NULL,
	fault       TEXT NOT NULL, -- why its envelope could not be read
	attempts    INTEGER NOT NULL, -- that failed and were charged; 0: it only waits
	due         INTEGER NOT NULL, -- when to try it, once it is the first of its key; milliseconds since 1970
	waiting     INTEGER NOT NULL, -- others of its key are before it
	holds       INTEGER NOT NULL, -- the messages of its key behind it wait for it
	since       INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
	first_at    TEXT,
	first_error TEXT NOT NULL,
	first_host  TEXT NOT NULL,
	last_at     TEXT,
	last_error  TEXT NOT NULL,
	last_host   TEXT NOT NULL,
	dead_at     TEXT, -- it is a dead letter
	kind        TEXT NOT NULL, -- why: attempts, age, malformed, permanent, …
	fingerprint TEXT NOT NULL, -- equal for failures of one kind
	stack       TEXT NOT NULL, -- of a panic
	version     TEXT NOT NULL, -- of the program
	nth         INTEGER NOT NULL, -- running number and bytes within the key: what lies between two rows is a subtraction
	running     INTEGER NOT NULL,
	erased_at   TEXT,
	UNIQUE (consumer, source, id)
) STRICT;

CREATE INDEX skald_parked_due ON skald_parked (consumer, due) WHERE dead_at IS NULL AND waiting = 0;
CREATE INDEX skald_parked_key ON skald_parked (consumer, key, place) WHERE key IS NOT NULL AND holds = 1;
CREATE INDEX skald_parked_front ON skald_parked (consumer, key, place) WHERE key IS NOT NULL AND holds = 1 AND waiting = 0;
CREATE INDEX skald_parked_dead ON skald_parked (consumer, fingerprint, place) WHERE dead_at IS NOT NULL;
CREATE INDEX skald_parked_failed ON skald_parked (consumer, place) WHERE attempts > 0 AND dead_at IS NULL;

-- What operators did to kept messages.
CREATE TABLE skald_audit (
	seq      INTEGER PRIMARY KEY AUTOINCREMENT,
	at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
	who      TEXT NOT NULL,
	why      TEXT NOT NULL,
	what     TEXT NOT NULL, -- redrive, release, drop, import
	consumer TEXT NOT NULL,
	source   TEXT NOT NULL,
	id       TEXT NOT NULL
) STRICT;

-- How much is kept for each consumer.
CREATE VIEW skald_keeping AS
SELECT consumer, sum(dead_at IS NULL) AS parked, sum(dead_at IS NOT NULL) AS dead,
	coalesce(sum(CASE WHEN dead_at IS NULL THEN bytes END), 0) AS bytes,
	strftime('%Y-%m-%dT%H:%M:%fZ', min(CASE WHEN dead_at IS NULL THEN since END) / 1000.0, 'unixepoch') AS oldest_at,
	max(coalesce(unixepoch('subsec') - min(CASE WHEN dead_at IS NULL THEN since END) / 1000.0, 0), 0) AS oldest_seconds
FROM skald_parked GROUP BY consumer;

-- Dead letters, without their payloads.
CREATE VIEW skald_dead AS
SELECT place, consumer, source, id, topic, type, key, attempts, dead_at, kind, fingerprint, last_error, last_host, first_at, first_error,
	version, holds AND key IS NOT NULL AS holds_key
FROM skald_parked WHERE dead_at IS NOT NULL;
