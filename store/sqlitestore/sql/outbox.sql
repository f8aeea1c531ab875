-- name: InsertRow
INSERT INTO skald_outbox (id, topic, key, key_bytes, type, data, data_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, bucket)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16);
