-- name: Quarantine
-- One that is there stays as it is, taken or not: that is its mark.
INSERT INTO /*schema*/skald_quarantine (consumer, source, id, fingerprint, why, topic, type, message)
VALUES ($1::text, $2::text, $3::text, $4::bigint, $5::smallint, $6::text, $7::text, $8::text)
ON CONFLICT DO NOTHING;

-- name: TakeAdmitted
WITH u AS (
	UPDATE /*schema*/skald_quarantine SET taken_at = clock_timestamp()
	WHERE consumer = $1::text AND source = $2::text AND id = $3::text AND fingerprint = $4::bigint
		AND admitted_at IS NOT NULL AND taken_at IS NULL
	RETURNING 1
)
SELECT /*schema*/skald_guard(EXISTS (SELECT FROM u), 'a message in quarantine');

-- name: Quarantined
SELECT number, consumer, source, id, fingerprint, why, message, at, admitted_at, coalesce(admitted_by, ''), coalesce(reason, ''), taken_at
FROM /*schema*/skald_quarantine
WHERE number > $1::bigint AND ($2::text = '' OR consumer = $2::text) AND ($3::text = '' OR id = $3::text)
	AND ($4::text = '' OR topic = $4::text) AND ($5::text = '' OR type = $5::text) AND ($6::smallint = 0 OR why = $6::smallint)
	AND ($7::boolean OR taken_at IS NULL)
ORDER BY number LIMIT $8::integer;

-- name: Admitted
SELECT number, consumer, source, id, fingerprint, why, message, at, admitted_at, coalesce(admitted_by, ''), coalesce(reason, ''), taken_at
FROM /*schema*/skald_quarantine
WHERE number > $1::bigint AND consumer = $2::text AND admitted_at IS NOT NULL AND taken_at IS NULL
ORDER BY number LIMIT $3::integer;

-- name: Admit
UPDATE /*schema*/skald_quarantine SET admitted_at = clock_timestamp(), admitted_by = $2::text, reason = $3::text
WHERE number = ANY ($1::bigint[]) AND admitted_at IS NULL;
