-- What a process needs that writes messages and consumes them. It cannot read the outbox, nor write what is Skald's
-- own in a row: txid, seq, slot, source.
GRANT USAGE ON SCHEMA /*itself*/ TO /*role*/;
GRANT SELECT ON /*schema*/skald_migration TO /*role*/;
GRANT SELECT ON /*schema*/skald_setting TO /*role*/; -- the ring of marks, the key of fingerprints
GRANT INSERT (topic, key, type, data, data_bytes, key_bytes, content_type, schema, subject, correlation_id, causation_id,
	traceparent, headers, time, id, bucket) ON /*schema*/skald_outbox TO /*role*/;
GRANT SELECT, INSERT ON /*each*/ /*schema*/skald_mark TO /*role*/;
GRANT SELECT, INSERT ON /*schema*/skald_mark_timeless TO /*role*/;
GRANT SELECT, INSERT ON /*schema*/skald_answer TO /*role*/;
GRANT SELECT ON /*schema*/skald_floor TO /*role*/;
GRANT SELECT, INSERT, UPDATE (taken_at, admitted_at, admitted_by, reason) ON /*schema*/skald_quarantine TO /*role*/;
GRANT SELECT, INSERT, UPDATE (version) ON /*schema*/skald_entity TO /*role*/;
GRANT SELECT, INSERT, UPDATE, DELETE ON /*schema*/skald_parked TO /*role*/;
GRANT SELECT, INSERT, UPDATE ON /*schema*/skald_step TO /*role*/;
GRANT SELECT ON /*schema*/skald_step_floor TO /*role*/;
GRANT SELECT, INSERT ON /*schema*/skald_audit TO /*role*/;
GRANT SELECT, INSERT, UPDATE (origin, position, reach, suspect, life, note, at) ON /*schema*/skald_spot TO /*role*/;
GRANT SELECT, INSERT, UPDATE (at), DELETE ON /*schema*/skald_type TO /*role*/;
GRANT SELECT ON /*schema*/skald_keeping TO /*role*/;
GRANT SELECT ON /*schema*/skald_backlog TO /*role*/; -- for metrics
GRANT SELECT ON /*schema*/skald_maintenance TO /*role*/;
GRANT SELECT ON /*schema*/skald_lanes TO /*role*/;
GRANT SELECT ON /*schema*/skald_consumers TO /*role*/;
GRANT SELECT ON /*schema*/skald_calling TO /*role*/;
-- The default of skald_mark's arrival. Not an identity column: before PostgreSQL 17 the leaves do not inherit it.
GRANT USAGE, SELECT ON SEQUENCE /*schema*/skald_arrival TO /*role*/;
-- To see that sequences have not come to what is there.
GRANT SELECT (arrival) ON /*schema*/skald_mark TO /*role*/;
GRANT SELECT ON SEQUENCE /*schema*/skald_parked_place_seq TO /*role*/;
GRANT SELECT ON SEQUENCE /*schema*/skald_quarantine_number_seq TO /*role*/;
GRANT SELECT ON SEQUENCE /*schema*/skald_audit_seq_seq TO /*role*/;
-- PUBLIC has these, unless somebody took them away.
GRANT EXECUTE ON FUNCTION /*schema*/skald_guard TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_turn TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_uuid7 TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_limits_ok TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_headers_ok TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_near TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_first TO /*role*/;
