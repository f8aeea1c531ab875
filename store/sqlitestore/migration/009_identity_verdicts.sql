-- What came under an identity, what was answered to it, what is too old to be known, and what can be neither dropped nor
-- taken before somebody decides.

-- An HMAC of type and payload, by the key below. NULL: the mark is of an earlier build, or its consumer compares nothing.
ALTER TABLE skald_mark ADD COLUMN fingerprint INTEGER;
INSERT INTO skald_setting (name, value) VALUES ('fingerprint key', lower(hex(randomblob(32))));

-- What a handler answered, by the arrival of its mark: written with the mark, and only where there is an answer.
CREATE TABLE skald_answer (
	arrival INTEGER PRIMARY KEY,
	outcome INTEGER NOT NULL, -- instead of the mark's
	reason  TEXT,
	code    INTEGER NOT NULL,
	result  BLOB,
	said    TEXT -- the messages that went with it, JSON, where repeats are to send them again
) STRICT;
CREATE TRIGGER skald_answer_goes AFTER DELETE ON skald_mark BEGIN DELETE FROM skald_answer WHERE arrival = OLD.arrival; END;

-- A consumer, and the time before which its marks may be forgotten: an id of a time before it that has no mark is too old.
-- Milliseconds since 1970.
CREATE TABLE skald_floor (
	consumer TEXT PRIMARY KEY,
	since    INTEGER NOT NULL, -- when the retention first met it
	at       INTEGER -- NULL: nothing of it is forgotten
) STRICT, WITHOUT ROWID;

CREATE TABLE skald_quarantine (
	number      INTEGER PRIMARY KEY AUTOINCREMENT,
	consumer    TEXT NOT NULL,
	source      TEXT NOT NULL,
	id          TEXT NOT NULL,
	fingerprint INTEGER NOT NULL,
	why         INTEGER NOT NULL, -- -1 too old, -2 conflict
	topic       TEXT NOT NULL,
	type        TEXT NOT NULL,
	message     TEXT NOT NULL, -- JSON, byte for byte
	at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
	admitted_at TEXT,
	admitted_by TEXT,
	reason      TEXT, -- of who admitted it
	taken_at    TEXT,
	UNIQUE (consumer, source, id, fingerprint)
) STRICT;
CREATE INDEX skald_quarantine_admitted ON skald_quarantine (consumer, number) WHERE admitted_at IS NOT NULL AND taken_at IS NULL;
CREATE INDEX skald_quarantine_waiting ON skald_quarantine (number) WHERE taken_at IS NULL;

INSERT INTO skald_maintained (name) VALUES ('skald_quarantine');

CREATE VIEW skald_keys AS
SELECT m.consumer, m.source, m.id AS key, CASE coalesce(a.outcome, m.outcome) WHEN 1 THEN 'done' WHEN 2 THEN 'rejected' ELSE 'other' END AS status,
	a.code, a.result, coalesce(a.reason, m.reason) AS reason, m.fingerprint, m.at, m.arrival
FROM skald_mark AS m LEFT JOIN skald_answer AS a ON a.arrival = m.arrival;

CREATE VIEW skald_quarantined AS
SELECT number, consumer, source, id, CASE why WHEN -1 THEN 'too old' ELSE 'conflict' END AS why, topic, type, at,
	unixepoch('subsec') - unixepoch(at, 'subsec') AS seconds, admitted_at, admitted_by, reason, message
FROM skald_quarantine WHERE taken_at IS NULL;
