-- name: PayloadSchema
SELECT definition FROM skald_payload_schema WHERE registry = ?1 AND id = ?2;

-- name: KeepPayloadSchema
INSERT INTO skald_payload_schema (registry, id, definition, at) VALUES (?1, ?2, ?3, CAST(unixepoch('subsec') * 1000 AS INTEGER))
ON CONFLICT (registry, id) DO NOTHING;
