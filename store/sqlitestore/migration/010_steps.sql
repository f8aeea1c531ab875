-- Steps of sagas: what took effect at a consumer, what is barred, and what was undone. No mark tells this: a mark is there for a
-- message that was rejected, too.
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

INSERT INTO skald_maintained (name) VALUES ('skald_step');

CREATE VIEW skald_steps AS
SELECT s.consumer, s.saga, s.step, s.occurrence, CASE s.state WHEN 1 THEN 'done' WHEN 2 THEN 'calling' WHEN 5 THEN 'rejected' WHEN 6 THEN 'barred'
	WHEN 7 THEN 'undone' ELSE CASE WHEN p.place IS NULL THEN 'dropped' WHEN p.dead_at IS NULL THEN 'parked' ELSE 'dead' END END AS state,
	s.source, s.id, s.by_source, s.by_id, s.code, s.result, s.outside_key, s.outcome,
	strftime('%Y-%m-%dT%H:%M:%fZ', s.begun / 1000.0, 'unixepoch') AS begun, strftime('%Y-%m-%dT%H:%M:%fZ', s.at / 1000.0, 'unixepoch') AS at,
	strftime('%Y-%m-%dT%H:%M:%fZ', s.changed_at / 1000.0, 'unixepoch') AS changed_at
FROM skald_step AS s LEFT JOIN skald_parked AS p ON p.consumer = s.consumer AND p.source = s.source AND p.id = s.id AND s.state IN (3, 4);

DROP VIEW skald_keys;
CREATE VIEW skald_keys AS
SELECT m.consumer, m.source, m.id AS key,
	CASE coalesce(a.outcome, m.outcome) WHEN 1 THEN 'done' WHEN 2 THEN 'rejected' WHEN 3 THEN 'barred' ELSE 'other' END AS status,
	a.code, a.result, coalesce(a.reason, m.reason) AS reason, m.fingerprint, m.at, m.arrival
FROM skald_mark AS m LEFT JOIN skald_answer AS a ON a.arrival = m.arrival;
