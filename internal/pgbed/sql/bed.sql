-- Queries of the store suite on PostgreSQL.

-- name: GetUsers
SELECT coalesce(array_agg(value), ARRAY[]::text[]) FROM /*schema*/kv WHERE key = $1;

-- name: CountRows
SELECT count(*) FROM /*schema*/skald_outbox;

-- name: CountMarks
SELECT count(*) FROM /*schema*/skald_mark;

-- name: CountAside
SELECT count(*) FROM /*schema*/skald_deferred;

-- name: CountAudits
SELECT count(*) FROM /*schema*/skald_audit;

-- name: AgeRows
-- moves rows to the slot of the older day, or to the oldest slot of the ring
UPDATE /*schema*/skald_outbox SET slot = (today - least((today - slot + 10) % 10 + floor($1::float8 / 86400)::bigint, 8)) % 10
	FROM (SELECT floor(extract(epoch FROM now()) / 86400)::bigint AS today) AS c;

-- name: AgeMarks
UPDATE /*schema*/skald_mark SET at = at - $1 * interval '1 second', until = until - $1 * interval '1 second';

-- name: AgeSteps
UPDATE /*schema*/skald_step SET at = at - $1 * interval '1 second';

-- name: AgeTypes
UPDATE /*schema*/skald_handled_type SET at = at - $1 * interval '1 second';

-- name: AgeConsumers
UPDATE /*schema*/skald_consumer SET heard_at = heard_at - $1 * interval '1 second', progress_at = progress_at - $1 * interval '1 second';

-- name: AgeQuarantine
UPDATE /*schema*/skald_quarantine SET taken_at = taken_at - $1 * interval '1 second';

-- name: AgeSagas
UPDATE /*schema*/skald_saga SET started_at = started_at - $1 * interval '1 second', ended_at = ended_at - $1 * interval '1 second';
