-- name: InsertAudit
INSERT INTO /*schema*/skald_audit (author, reason, action, consumer, source, id, run) VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text);

-- name: Audited
SELECT seq, at, author, reason, action, consumer, source, id, run, login FROM /*schema*/skald_audit
WHERE run = $1::text AND run <> '' AND seq > $2::bigint ORDER BY seq LIMIT $3::integer;

-- name: AuditedLast
SELECT seq, at, author, reason, action, consumer, source, id, run, login FROM /*schema*/skald_audit WHERE seq < $1::bigint ORDER BY seq DESC LIMIT $2::integer;
