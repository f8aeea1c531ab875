-- name: Kinds
SELECT topic, type FROM skald_type WHERE consumer = ?1 ORDER BY topic, type;

-- name: KindsNoted
-- Those that were noted just now.
SELECT topic, type FROM skald_type WHERE consumer = ?1 AND at >= CAST(unixepoch('subsec') * 1000 AS INTEGER) - 20000;

-- name: NoteKind
INSERT INTO skald_type (consumer, topic, type, at) VALUES (?1, ?2, ?3, CAST(unixepoch('subsec') * 1000 AS INTEGER))
ON CONFLICT (consumer, topic, type) DO UPDATE SET at = excluded.at;

-- name: ForgetKinds
DELETE FROM skald_type WHERE consumer = ?1 AND at < CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?2;
