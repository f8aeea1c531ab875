-- Writes the outbox as a person with psql would.
BEGIN;
INSERT INTO skald_outbox (topic, key, type, data) VALUES ('orders', :'key', 'json', :'doc');
INSERT INTO skald_outbox (topic, type, data) VALUES ('orders', 'nokey', :'doc');
INSERT INTO skald_outbox (topic, key_bytes, type, content_type, data_bytes, headers)
SELECT 'orders', '\xff006b', 'binary', 'application/octet-stream', string_agg(set_byte('\x00', 0, n), '' ORDER BY n), '[["a", "AA=="]]'
FROM generate_series(0, 255) AS n;
INSERT INTO skald_outbox (topic, key, type) VALUES ('orders', :'key', 'tombstone');
COMMIT;
