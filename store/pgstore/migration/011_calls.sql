-- A call to the outside that a kept message is at, as JSON: {"key", "request", "since", "outcome", "undo"}. NULL: it is at none.
ALTER TABLE /*schema*/skald_parked ADD COLUMN call text;
CREATE INDEX skald_parked_call ON /*schema*/skald_parked (consumer, place) WHERE call IS NOT NULL;

-- Calls of which it is not settled what became of them.
CREATE VIEW /*schema*/skald_calling AS
SELECT place, consumer, source, id, topic, type, key, call::json ->> 'key' AS outside_key, (call::json ->> 'since')::timestamptz AS since,
	greatest(extract(epoch FROM clock_timestamp() - (call::json ->> 'since')::timestamptz), 0)::double precision AS seconds,
	attempts, due, last_error, dead_at
FROM /*schema*/skald_parked WHERE call IS NOT NULL;
