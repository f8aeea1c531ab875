-- Steps of sagas: what took effect at a consumer, what is barred, and what was undone. No mark tells this: a mark is there for a
-- message that was rejected, too.
CREATE TABLE /*schema*/skald_step (
	consumer    text NOT NULL,
	saga        text NOT NULL,
	step        text NOT NULL,
	occurrence  text NOT NULL, -- which of several of the name
	state       smallint NOT NULL, -- 1 done, 2 calling, 3 parked, 4 dead, 5 rejected, 6 barred, 7 undone
	was         smallint NOT NULL DEFAULT 0, -- before a message last took it in hand
	source      text, -- the message that took it, or waits to
	id          text,
	by_source   text, -- the message that undid or barred it
	by_id       text,
	begun       timestamptz, -- when its saga began; NULL: nobody said
	code        integer, -- what was answered when it was taken
	result      bytea,
	outside_key text, -- of a call outside
	outcome     bytea, -- of that call
	at          timestamptz NOT NULL DEFAULT clock_timestamp(),
	changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (consumer, saga, step, occurrence)
);
CREATE INDEX skald_step_at ON /*schema*/skald_step (at);

-- The time before which steps of the name may be forgotten: one that is not there, of a saga that began before it, is too old.
CREATE TABLE /*schema*/skald_step_floor (
	consumer text NOT NULL,
	step     text NOT NULL,
	at       timestamptz NOT NULL,
	PRIMARY KEY (consumer, step)
);

INSERT INTO /*schema*/skald_maintained (name) VALUES ('skald_step');

CREATE VIEW /*schema*/skald_steps AS
SELECT s.consumer, s.saga, s.step, s.occurrence, CASE s.state WHEN 1 THEN 'done' WHEN 2 THEN 'calling' WHEN 5 THEN 'rejected' WHEN 6 THEN 'barred'
	WHEN 7 THEN 'undone' ELSE CASE WHEN p.place IS NULL THEN 'dropped' WHEN p.dead_at IS NULL THEN 'parked' ELSE 'dead' END END AS state,
	s.source, s.id, s.by_source, s.by_id, s.code, s.result, s.outside_key, s.outcome, s.begun, s.at, s.changed_at
FROM /*schema*/skald_step AS s
LEFT JOIN /*schema*/skald_parked AS p ON p.consumer = s.consumer AND p.source = s.source AND p.id = s.id AND s.state IN (3, 4);

CREATE OR REPLACE VIEW /*schema*/skald_keys AS
SELECT m.consumer, m.source, m.key,
	CASE coalesce(a.outcome, m.outcome) WHEN 1 THEN 'done' WHEN 2 THEN 'rejected' WHEN 3 THEN 'barred' ELSE 'other' END AS status,
	a.code, a.result, coalesce(a.reason, m.reason) AS reason, m.fingerprint, m.at, m.arrival
FROM (
	SELECT consumer, source, id::text AS key, outcome, reason, fingerprint, at, arrival FROM /*schema*/skald_mark
	UNION ALL
	SELECT consumer, source, id, outcome, reason, fingerprint, at, arrival FROM /*schema*/skald_mark_timeless
) AS m LEFT JOIN /*schema*/skald_answer AS a ON a.arrival = m.arrival;
