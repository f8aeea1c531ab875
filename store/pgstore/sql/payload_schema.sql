-- name: PayloadSchema
SELECT definition FROM /*schema*/skald_payload_schema WHERE registry = $1::text AND id = $2::text;

-- name: KeepPayloadSchema
INSERT INTO /*schema*/skald_payload_schema (registry, id, definition) VALUES ($1::text, $2::text, $3::text) ON CONFLICT (registry, id) DO NOTHING;
