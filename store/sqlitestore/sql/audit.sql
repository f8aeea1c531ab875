-- name: InsertAudit
INSERT INTO skald_audit (author, reason, action, consumer, source, id, run) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: Audited
SELECT seq, at, author, reason, action, consumer, source, id, run FROM skald_audit WHERE run = ?1 AND run <> '' AND seq > ?2 ORDER BY seq LIMIT ?3;

-- name: AuditedLast
SELECT seq, at, author, reason, action, consumer, source, id, run FROM skald_audit WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2;
