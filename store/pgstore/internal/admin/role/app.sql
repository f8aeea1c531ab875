-- The rights of a process that writes and consumes messages. It cannot read the outbox, and cannot write Skald's own columns of a row:
-- txid, seq, slot, source.
GRANT USAGE ON SCHEMA /*itself*/ TO /*role*/;
GRANT SELECT ON /*schema*/skald_migration TO /*role*/;
GRANT SELECT ON /*schema*/skald_setting TO /*role*/; -- the key of fingerprints
GRANT INSERT (topic, key, type, data, data_bytes, key_bytes, content_type, schema, subject, correlation_id, causation_id,
	traceparent, headers, time, id, bucket) ON /*schema*/skald_outbox TO /*role*/;
GRANT SELECT, INSERT ON /*schema*/skald_mark TO /*role*/;
GRANT SELECT, INSERT ON /*schema*/skald_answer TO /*role*/;
GRANT SELECT ON /*schema*/skald_floor TO /*role*/;
GRANT SELECT, INSERT, UPDATE (fingerprint, token, at, until), DELETE ON /*schema*/skald_reservation TO /*role*/;
GRANT SELECT, INSERT, UPDATE (taken_at, admitted_at, admitted_by, reason) ON /*schema*/skald_quarantine TO /*role*/;
GRANT SELECT, INSERT, UPDATE (version) ON /*schema*/skald_entity TO /*role*/;
GRANT SELECT, INSERT, UPDATE, DELETE ON /*schema*/skald_parked TO /*role*/;
GRANT SELECT, INSERT, UPDATE ON /*schema*/skald_step TO /*role*/;
GRANT SELECT ON /*schema*/skald_step_floor TO /*role*/;
GRANT SELECT, INSERT (author, reason, action, consumer, source, id, run) ON /*schema*/skald_audit TO /*role*/; -- not when, nor by which login
GRANT SELECT, INSERT, UPDATE (origin, position, in_flight_end, crash_suspect, session, stamp, at) ON /*schema*/skald_checkpoint TO /*role*/;
GRANT SELECT, INSERT, UPDATE (at), DELETE ON /*schema*/skald_handled_type TO /*role*/;
GRANT SELECT, INSERT, UPDATE (heard_at, progress_at) ON /*schema*/skald_consumer TO /*role*/;
GRANT SELECT, INSERT, UPDATE (state, due, drift, drifted_at, body, changed_at) ON /*schema*/skald_tracked TO /*role*/;
GRANT SELECT, INSERT, UPDATE (hash, session, due, status, stuck, paused, version, changed_at, failed, step, error, state,
	since, retry, ended_at, id, input, fingerprint, origin, started_at) ON /*schema*/skald_saga TO /*role*/;
GRANT SELECT, INSERT, DELETE ON /*schema*/skald_hold TO /*role*/;
GRANT SELECT, INSERT, UPDATE (written, noted_at) ON /*schema*/skald_saga_definition TO /*role*/;
GRANT SELECT, INSERT ON /*schema*/skald_payload_schema TO /*role*/;
GRANT SELECT ON /*schema*/skald_backlog TO /*role*/; -- for metrics
GRANT SELECT ON /*schema*/skald_retention TO /*role*/;
GRANT SELECT ON /*schema*/skald_shards TO /*role*/;
GRANT SELECT ON /*schema*/skald_consumers TO /*role*/;
GRANT SELECT ON /*schema*/skald_progress TO /*role*/;
GRANT SELECT ON /*schema*/skald_calls TO /*role*/;
-- The default of skald_mark's arrival.
GRANT USAGE, SELECT ON SEQUENCE /*schema*/skald_arrival TO /*role*/;
-- To detect sequences that are behind the stored rows.
GRANT SELECT ON SEQUENCE /*schema*/skald_parked_place_seq TO /*role*/;
GRANT SELECT ON SEQUENCE /*schema*/skald_quarantine_number_seq TO /*role*/;
GRANT SELECT ON SEQUENCE /*schema*/skald_audit_seq_seq TO /*role*/;
-- By default PUBLIC has these, except skald_pending_after, skald_oldest_after and skald_kept_counts.
GRANT EXECUTE ON FUNCTION /*schema*/skald_require TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_check_key_order TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_expire TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_uuid7 TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_limits_ok TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_check_limits TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_headers_ok TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_pending_after TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_kept_counts TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_oldest_after TO /*role*/;
