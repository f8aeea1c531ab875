-- name: InsertRow
-- No RETURNING: a writer needs no more than INSERT. Source is the column's default.
INSERT INTO /*schema*/skald_outbox (topic, key, type, data, data_bytes, key_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, id, bucket)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::bytea, $6::bytea, $7::text, $8::text, $9::text,
	$10::text, $11::text, $12::text, $13::text::jsonb, coalesce($14::timestamptz, now()),
	coalesce($15::text::uuid, /*schema*/skald_uuid7()), $16::smallint);

-- name: InsertUsual
-- For a row that has JSON, a key that is text, and no more.
INSERT INTO /*schema*/skald_outbox (topic, key, type, data, correlation_id, causation_id, traceparent, time, id, bucket)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::timestamptz, $9::uuid, $10::smallint);

-- name: InsertManyUsual
INSERT INTO /*schema*/skald_outbox (topic, key, type, data, correlation_id, causation_id, traceparent, time, id, bucket)
SELECT topic, key, type, data, correlation_id, causation_id, traceparent, time, id, bucket
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[], $9::uuid[], $10::smallint[])
	AS r(topic, key, type, data, correlation_id, causation_id, traceparent, time, id, bucket);

-- name: InsertRows
-- For more than one: arrays of one element would halve the rate. The order of the arrays is the order of seq.
INSERT INTO /*schema*/skald_outbox (topic, key, type, data, data_bytes, key_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, id, bucket)
SELECT topic, key, type, data, data_bytes, key_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers::jsonb, coalesce(time, now()),
	coalesce(id::uuid, /*schema*/skald_uuid7()), bucket
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::text[], $8::text[], $9::text[],
	$10::text[], $11::text[], $12::text[], $13::text[], $14::timestamptz[], $15::text[], $16::smallint[])
	AS r(topic, key, type, data, data_bytes, key_bytes, content_type, schema, subject,
	correlation_id, causation_id, traceparent, headers, time, id, bucket);
