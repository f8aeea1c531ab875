-- name: Quarantine
-- Stores a message in the quarantine. It does not change an existing row, because that row also marks the message as seen. It stores nothing if
-- the quarantine is at the limits of store.Quarantined.
INSERT INTO skald_quarantine (consumer, source, id, fingerprint, cause, topic, type, message, data)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
WHERE (SELECT count(*) FROM (SELECT 1 FROM skald_quarantine WHERE consumer = ?1 AND source = ?2 AND id = ?3 LIMIT 10)) < 10
	AND (SELECT count(*) FROM (SELECT 1 FROM skald_quarantine WHERE consumer = ?1 AND taken_at IS NULL LIMIT 10000)) < 10000
ON CONFLICT (consumer, source, id, fingerprint) DO NOTHING;

-- name: CountQuarantined
SELECT count(*) FROM skald_quarantine WHERE consumer = ?1 AND taken_at IS NULL;

-- name: TakeAdmitted
UPDATE skald_quarantine SET taken_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE consumer = ?1 AND source = ?2 AND id = ?3 AND fingerprint = ?4 AND admitted_at IS NOT NULL AND taken_at IS NULL;

-- name: Quarantined
SELECT number, consumer, source, id, fingerprint, cause, message, at, coalesce(admitted_at, ''), coalesce(admitted_by, ''), coalesce(reason, ''), coalesce(taken_at, ''),
	CASE WHEN NOT ?10 THEN data END, coalesce(length(data), 0)
FROM skald_quarantine
WHERE number > ?1 AND (?2 = '' OR consumer = ?2) AND (?3 = '' OR id = ?3) AND (?4 = '' OR topic = ?4) AND (?5 = '' OR type = ?5)
	AND (?6 = 0 OR cause = ?6) AND (?7 OR taken_at IS NULL) AND (NOT ?8 OR admitted_at IS NOT NULL)
ORDER BY number LIMIT ?9;

-- name: Admitted
SELECT number, consumer, source, id, fingerprint, cause, message, at, coalesce(admitted_at, ''), coalesce(admitted_by, ''), coalesce(reason, ''), coalesce(taken_at, ''), data, coalesce(length(data), 0)
FROM skald_quarantine
WHERE number > ?1 AND consumer = ?2 AND admitted_at IS NOT NULL AND taken_at IS NULL
ORDER BY number LIMIT ?3;

-- name: Admit
UPDATE skald_quarantine SET admitted_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), admitted_by = ?2, reason = ?3
WHERE number = ?1 AND admitted_at IS NULL;

-- name: PutBack
UPDATE skald_quarantine SET admitted_at = NULL, admitted_by = ?2, reason = ?3
WHERE number = ?1 AND admitted_at IS NOT NULL AND taken_at IS NULL;
