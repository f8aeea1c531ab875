-- A call to the outside that a kept message is at, as JSON: {"key", "request", "since", "outcome", "undo"}. NULL: it is at none.
ALTER TABLE skald_parked ADD COLUMN call TEXT;
CREATE INDEX skald_parked_call ON skald_parked (consumer, place) WHERE call IS NOT NULL;

-- Calls of which it is not settled what became of them.
CREATE VIEW skald_calling AS
SELECT place, consumer, source, id, topic, type, key, call ->> '$.key' AS outside_key, call ->> '$.since' AS since,
	max(unixepoch('subsec') - unixepoch(call ->> '$.since', 'subsec'), 0) AS seconds, attempts, due, last_error, dead_at
FROM skald_parked WHERE call IS NOT NULL;
