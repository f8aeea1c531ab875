-- What came under an identity, what was answered to it, what is too old to be known, and what can be neither dropped nor
-- taken before somebody decides.

-- An HMAC of type and payload, by the key below. NULL: the mark is of an earlier build, or its consumer compares nothing.
ALTER TABLE /*schema*/skald_mark ADD COLUMN fingerprint bigint;
ALTER TABLE /*schema*/skald_mark_timeless ADD COLUMN fingerprint bigint;
INSERT INTO /*schema*/skald_setting (name, value)
VALUES ('fingerprint key', encode(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'hex'));

-- What a handler answered, by the arrival of its mark: written with the mark, and only where there is an answer.
CREATE TABLE /*schema*/skald_answer (
	arrival bigint PRIMARY KEY,
	outcome smallint NOT NULL, -- instead of the mark's
	reason  text,
	code    integer NOT NULL,
	result  bytea,
	said    text, -- the messages that went with it, JSON, where repeats are to send them again
	at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX skald_answer_at ON /*schema*/skald_answer (at);

-- A consumer, and the time before which its marks may be forgotten: an id of a time before it that has no mark is too old.
CREATE TABLE /*schema*/skald_floor (
	consumer text PRIMARY KEY,
	since    timestamptz NOT NULL DEFAULT clock_timestamp(), -- when the retention first met it
	at       timestamptz -- NULL: nothing of it is forgotten
);

CREATE TABLE /*schema*/skald_quarantine (
	number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	consumer    text NOT NULL,
	source      text NOT NULL,
	id          text NOT NULL,
	fingerprint bigint NOT NULL,
	why         smallint NOT NULL, -- -1 too old, -2 conflict
	topic       text NOT NULL,
	type        text NOT NULL,
	message     text NOT NULL, -- JSON, byte for byte
	at          timestamptz NOT NULL DEFAULT clock_timestamp(),
	admitted_at timestamptz,
	admitted_by text,
	reason      text, -- of who admitted it
	taken_at    timestamptz,
	UNIQUE (consumer, source, id, fingerprint)
);
CREATE INDEX skald_quarantine_admitted ON /*schema*/skald_quarantine (consumer, number) WHERE admitted_at IS NOT NULL AND taken_at IS NULL;
CREATE INDEX skald_quarantine_waiting ON /*schema*/skald_quarantine (number) WHERE taken_at IS NULL;

INSERT INTO /*schema*/skald_maintained (name) VALUES ('skald_answer'), ('skald_quarantine');

CREATE VIEW /*schema*/skald_keys AS
SELECT m.consumer, m.source, m.key, CASE coalesce(a.outcome, m.outcome) WHEN 1 THEN 'done' WHEN 2 THEN 'rejected' ELSE 'other' END AS status,
	a.code, a.result, coalesce(a.reason, m.reason) AS reason, m.fingerprint, m.at, m.arrival
FROM (
	SELECT consumer, source, id::text AS key, outcome, reason, fingerprint, at, arrival FROM /*schema*/skald_mark
	UNION ALL
	SELECT consumer, source, id, outcome, reason, fingerprint, at, arrival FROM /*schema*/skald_mark_timeless
) AS m LEFT JOIN /*schema*/skald_answer AS a ON a.arrival = m.arrival;

CREATE VIEW /*schema*/skald_quarantined AS
SELECT number, consumer, source, id, CASE why WHEN -1 THEN 'too old' ELSE 'conflict' END AS why, topic, type, at,
	extract(epoch FROM clock_timestamp() - at)::double precision AS seconds, admitted_at, admitted_by, reason, message
FROM /*schema*/skald_quarantine WHERE taken_at IS NULL;
