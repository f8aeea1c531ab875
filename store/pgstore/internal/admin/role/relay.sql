-- The rights of `skald relay`, or of a process that runs a relay. It reads the outbox, changes no row of it, and truncates whole leaves.
GRANT USAGE ON SCHEMA /*itself*/ TO /*role*/;
GRANT SELECT ON /*schema*/skald_migration TO /*role*/;
GRANT SELECT, UPDATE (value) ON /*schema*/skald_setting TO /*role*/; -- UPDATE to lock the row; a trigger lets it change 'recovery reason' alone
GRANT SELECT ON /*schema*/skald_outbox TO /*role*/;
GRANT SELECT, TRUNCATE ON /*each*/ /*schema*/skald_outbox TO /*role*/;
GRANT SELECT ON SEQUENCE /*schema*/skald_outbox_seq_seq TO /*role*/;
GRANT SELECT, UPDATE (at), DELETE ON /*schema*/skald_mark TO /*role*/; -- UPDATE to lock the row
GRANT SELECT, DELETE ON /*schema*/skald_answer TO /*role*/;
GRANT SELECT, INSERT, UPDATE (at) ON /*schema*/skald_floor TO /*role*/;
GRANT SELECT, DELETE ON /*schema*/skald_reservation TO /*role*/;
GRANT SELECT, UPDATE (taken_at), DELETE ON /*schema*/skald_quarantine TO /*role*/;
GRANT SELECT, UPDATE (was), DELETE ON /*schema*/skald_step TO /*role*/; -- UPDATE to lock the row
GRANT SELECT, INSERT, UPDATE (at) ON /*schema*/skald_step_floor TO /*role*/;
GRANT SELECT, UPDATE (version), DELETE ON /*schema*/skald_saga TO /*role*/; -- UPDATE to lock the row
GRANT SELECT (key, flow, state, due, drifted_at) ON /*schema*/skald_tracked TO /*role*/; -- to count
GRANT SELECT (consumer, source, id) ON /*schema*/skald_parked TO /*role*/; -- a step whose message is kept stays
GRANT SELECT, INSERT, DELETE ON /*schema*/skald_snapshot TO /*role*/;
GRANT SELECT, UPDATE ON /*schema*/skald_shard TO /*role*/;
GRANT SELECT, INSERT, UPDATE, DELETE ON /*schema*/skald_relay TO /*role*/;
GRANT SELECT, INSERT, UPDATE, DELETE ON /*schema*/skald_deferred TO /*role*/;
GRANT SELECT, UPDATE (ran_at, removed_at, keep) ON /*schema*/skald_retention_run TO /*role*/;
GRANT SELECT ON /*schema*/skald_backlog TO /*role*/; -- for metrics
GRANT SELECT ON /*schema*/skald_retention TO /*role*/;
GRANT SELECT ON /*schema*/skald_shards TO /*role*/;
GRANT SELECT ON /*schema*/skald_consumers TO /*role*/;
GRANT SELECT ON /*schema*/skald_progress TO /*role*/;
GRANT SELECT ON /*schema*/skald_calls TO /*role*/;
GRANT SELECT, INSERT, UPDATE, DELETE ON /*schema*/skald_lease TO /*role*/;
-- By default PUBLIC has these and pg_control_system, which they call, but not skald_pending_after, skald_oldest_after and
-- skald_kept_counts.
GRANT EXECUTE ON FUNCTION /*schema*/skald_require TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_check_identity TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_recovery_reason TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_database_identity TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_pending_after TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_kept_counts TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_oldest_after TO /*role*/;
