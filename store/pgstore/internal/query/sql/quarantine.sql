-- name: Quarantine
-- Stores a message in the quarantine. It does not change an existing row, because that row also marks the message as seen. It stores nothing if
-- the quarantine is at the limits of store.Quarantined.
INSERT INTO /*schema*/skald_quarantine (consumer, source, id, fingerprint, cause, topic, type, message, data)
SELECT $1::text, $2::text, $3::text, $4::bigint, $5::smallint, $6::text, $7::text, $8::text, $9::bytea
WHERE (SELECT count(*) FROM (SELECT FROM /*schema*/skald_quarantine WHERE consumer = $1::text AND source = $2::text AND id = $3::text LIMIT 10) AS q) < 10
	AND (SELECT count(*) FROM (SELECT FROM /*schema*/skald_quarantine WHERE consumer = $1::text AND taken_at IS NULL LIMIT 10000) AS q) < 10000
ON CONFLICT DO NOTHING;

-- name: TakeAdmitted
WITH u AS (
	UPDATE /*schema*/skald_quarantine SET taken_at = clock_timestamp()
	WHERE consumer = $1::text AND source = $2::text AND id = $3::text AND fingerprint = $4::bigint
		AND admitted_at IS NOT NULL AND taken_at IS NULL
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM u), 'a message in quarantine');

-- name: Quarantined
SELECT number, consumer, source, id, fingerprint, cause, message, at, admitted_at, coalesce(admitted_by, ''), coalesce(reason, ''), taken_at,
	CASE WHEN NOT $10::boolean THEN data END, coalesce(octet_length(data), 0)
FROM /*schema*/skald_quarantine
WHERE number > $1::bigint AND ($2::text = '' OR consumer = $2::text) AND ($3::text = '' OR id = $3::text)
	AND ($4::text = '' OR topic = $4::text) AND ($5::text = '' OR type = $5::text) AND ($6::smallint = 0 OR cause = $6::smallint)
	AND ($7::boolean OR taken_at IS NULL) AND (NOT $8::boolean OR admitted_at IS NOT NULL)
ORDER BY number LIMIT $9::integer;

-- name: Admitted
SELECT number, consumer, source, id, fingerprint, cause, message, at, admitted_at, coalesce(admitted_by, ''), coalesce(reason, ''), taken_at, data, coalesce(octet_length(data), 0)
FROM /*schema*/skald_quarantine
WHERE number > $1::bigint AND consumer = $2::text AND admitted_at IS NOT NULL AND taken_at IS NULL
ORDER BY number LIMIT $3::integer;

-- name: Admit
WITH u AS (
	UPDATE /*schema*/skald_quarantine SET admitted_at = clock_timestamp(), admitted_by = $2::text, reason = $3::text
	WHERE number = $1::bigint AND admitted_at IS NULL
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM u), 'a message in quarantine that is not admitted');

-- name: PutBack
WITH u AS (
	UPDATE /*schema*/skald_quarantine SET admitted_at = NULL, admitted_by = $2::text, reason = $3::text
	WHERE number = $1::bigint AND admitted_at IS NOT NULL AND taken_at IS NULL
	RETURNING 1
)
SELECT /*schema*/skald_require(EXISTS (SELECT FROM u), 'a message in quarantine that is admitted');
