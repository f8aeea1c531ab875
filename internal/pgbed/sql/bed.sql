-- What the suite of stores asks of tables on PostgreSQL.

-- name: GetUsers
SELECT coalesce(array_agg(value), ARRAY[]::text[]) FROM /*schema*/kv WHERE key = $1;

-- name: CountRows
SELECT count(*) FROM /*schema*/skald_outbox;

-- name: CountMarks
SELECT count(*) FROM (SELECT consumer, source, id::text FROM /*schema*/skald_mark
	UNION SELECT consumer, source, id FROM /*schema*/skald_mark_timeless) AS m;

-- name: CountAside
SELECT count(*) FROM /*schema*/skald_aside;

-- name: CountAudits
SELECT count(*) FROM /*schema*/skald_audit;

-- name: AgeRows
-- moves rows to the slot that they would be in, or to the oldest that the ring has
UPDATE /*schema*/skald_outbox SET slot = (today - least((today - slot + 10) % 10 + floor($1::float8 / 86400)::bigint, 8)) % 10
	FROM (SELECT floor(extract(epoch FROM now()) / 86400)::bigint AS today) AS c;

-- name: AgeMarks
UPDATE /*schema*/skald_mark_timeless SET at = at - $1 * interval '1 second';

-- name: AgeSteps
UPDATE /*schema*/skald_step SET at = at - $1 * interval '1 second';

-- name: AgeFloors
UPDATE /*schema*/skald_floor SET since = since - $1 * interval '1 second';

-- name: AgeQuarantine
UPDATE /*schema*/skald_quarantine SET taken_at = taken_at - $1 * interval '1 second';

-- name: KnowAll
INSERT INTO /*schema*/skald_floor (consumer) SELECT DISTINCT consumer FROM /*schema*/skald_mark ON CONFLICT DO NOTHING;

-- name: KnowForLong
UPDATE /*schema*/skald_floor SET since = since - interval '40 days';
