-- What `skald relay` needs, or a process that runs a relay: it reads the outbox, changes no row of it, and empties
-- whole leaves.
GRANT USAGE ON SCHEMA /*itself*/ TO /*role*/;
GRANT SELECT ON /*schema*/skald_migration TO /*role*/;
GRANT SELECT, UPDATE (value) ON /*schema*/skald_setting TO /*role*/; -- UPDATE to lock the row
GRANT SELECT ON /*schema*/skald_outbox TO /*role*/;
GRANT SELECT, TRUNCATE ON /*each*/ /*schema*/skald_outbox TO /*role*/;
GRANT SELECT ON SEQUENCE /*schema*/skald_outbox_seq_seq TO /*role*/;
GRANT SELECT, TRUNCATE ON /*each*/ /*schema*/skald_mark TO /*role*/;
GRANT SELECT, UPDATE (at), DELETE ON /*schema*/skald_mark_timeless TO /*role*/; -- UPDATE to lock the row
GRANT SELECT, UPDATE (at), DELETE ON /*schema*/skald_answer TO /*role*/;
GRANT SELECT, INSERT, UPDATE (at) ON /*schema*/skald_floor TO /*role*/;
GRANT SELECT, UPDATE (taken_at), DELETE ON /*schema*/skald_quarantine TO /*role*/;
GRANT SELECT, UPDATE (was), DELETE ON /*schema*/skald_step TO /*role*/; -- UPDATE to lock the row
GRANT SELECT, INSERT, UPDATE (at) ON /*schema*/skald_step_floor TO /*role*/;
GRANT SELECT (consumer, source, id) ON /*schema*/skald_parked TO /*role*/; -- a step whose message is kept stays
GRANT SELECT, INSERT, DELETE ON /*schema*/skald_tick TO /*role*/;
GRANT SELECT, UPDATE ON /*schema*/skald_lane TO /*role*/;
GRANT SELECT, INSERT, UPDATE, DELETE ON /*schema*/skald_relay TO /*role*/;
GRANT SELECT, INSERT, UPDATE, DELETE ON /*schema*/skald_aside TO /*role*/;
GRANT SELECT, UPDATE (looked_at, emptied_at, keep) ON /*schema*/skald_maintained TO /*role*/;
GRANT SELECT ON /*schema*/skald_backlog TO /*role*/; -- for metrics
GRANT SELECT ON /*schema*/skald_maintenance TO /*role*/;
GRANT SELECT ON /*schema*/skald_lanes TO /*role*/;
GRANT SELECT ON /*schema*/skald_consumers TO /*role*/;
GRANT SELECT ON /*schema*/skald_calling TO /*role*/;
GRANT SELECT, INSERT, UPDATE, DELETE ON /*schema*/skald_lease TO /*role*/;
-- PUBLIC has these, unless somebody took them away; so it is with pg_control_system, which they ask.
GRANT EXECUTE ON FUNCTION /*schema*/skald_guard TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_here TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_moved TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_place TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_near TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_first TO /*role*/;
