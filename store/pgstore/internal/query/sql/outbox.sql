-- name: InsertRow
-- Has no RETURNING, so that a writer needs only the right to INSERT. The source is the default of its column.
INSERT INTO /*schema*/skald_outbox (topic, key, type, data, data_bytes, key_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, id, bucket)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::bytea, $6::bytea, $7::text, $8::text, $9::text,
	$10::text, $11::text, $12::text, $13::text::jsonb, coalesce($14::timestamptz, now()),
	coalesce($15::text::uuid, /*schema*/skald_uuid7()), $16::smallint);

-- name: InsertUsual
-- Inserts a row that has only JSON and a text key.
INSERT INTO /*schema*/skald_outbox (topic, key, type, data, correlation_id, causation_id, traceparent, time, id, bucket)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::timestamptz, $9::uuid, $10::smallint);

-- name: InsertManyUsual
-- Inserts many usual rows. In the arrays, the text $11 and the bucket -1 mean NULL.
INSERT INTO /*schema*/skald_outbox (topic, key, type, data, correlation_id, causation_id, traceparent, time, id, bucket)
SELECT topic, nullif(key, $11::text), type, nullif(data, $11::text), nullif(correlation_id, $11::text), nullif(causation_id, $11::text),
	nullif(traceparent, $11::text), time, id, nullif(bucket, -1)
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[], $9::uuid[], $10::smallint[])
	AS r(topic, key, type, data, correlation_id, causation_id, traceparent, time, id, bucket);

-- name: InsertRows
-- Inserts several rows; for one row, arrays would halve the rate. The order of the arrays is the order of seq. In the arrays, the text $17 and
-- the bucket -1 mean NULL.
INSERT INTO /*schema*/skald_outbox (topic, key, type, data, data_bytes, key_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, id, bucket)
SELECT topic, nullif(key, $17::text), type, nullif(data, $17::text), nullif(data_bytes, $17::text::bytea), nullif(key_bytes, $17::text::bytea),
	content_type, nullif(schema, $17::text), nullif(subject, $17::text), nullif(correlation_id, $17::text), nullif(causation_id, $17::text),
	nullif(traceparent, $17::text), nullif(headers, $17::text)::jsonb, coalesce(nullif(time, $17::text)::timestamptz, now()),
	coalesce(nullif(id, $17::text)::uuid, /*schema*/skald_uuid7()), nullif(bucket, -1)
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::text[], $8::text[], $9::text[],
	$10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::smallint[])
	AS r(topic, key, type, data, data_bytes, key_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, id, bucket);
