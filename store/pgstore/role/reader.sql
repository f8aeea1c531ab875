-- What a person or a dashboard needs to look: payloads can be read, nothing can be written.
GRANT USAGE ON SCHEMA /*itself*/ TO /*role*/;
GRANT SELECT ON /*schema*/skald_migration TO /*role*/;
GRANT SELECT ON /*schema*/skald_setting TO /*role*/;
GRANT SELECT ON /*schema*/skald_outbox TO /*role*/;
GRANT SELECT ON /*schema*/skald_mark TO /*role*/;
GRANT SELECT ON /*schema*/skald_mark_timeless TO /*role*/;
GRANT SELECT ON /*schema*/skald_answer TO /*role*/;
GRANT SELECT ON /*schema*/skald_floor TO /*role*/;
GRANT SELECT ON /*schema*/skald_quarantine TO /*role*/;
GRANT SELECT ON /*schema*/skald_keys TO /*role*/;
GRANT SELECT ON /*schema*/skald_quarantined TO /*role*/;
GRANT SELECT ON /*schema*/skald_entity TO /*role*/;
GRANT SELECT ON /*schema*/skald_tick TO /*role*/;
GRANT SELECT ON /*schema*/skald_lane TO /*role*/;
GRANT SELECT ON /*schema*/skald_relay TO /*role*/;
GRANT SELECT ON /*schema*/skald_aside TO /*role*/;
GRANT SELECT ON /*schema*/skald_maintained TO /*role*/;
GRANT SELECT ON /*schema*/skald_position TO /*role*/;
GRANT SELECT ON /*schema*/skald_outbox_state TO /*role*/;
GRANT SELECT ON /*schema*/skald_outbox_pending TO /*role*/;
GRANT SELECT ON /*schema*/skald_lanes TO /*role*/;
GRANT SELECT ON /*schema*/skald_backlog TO /*role*/;
GRANT SELECT ON /*schema*/skald_maintenance TO /*role*/;
-- The views call these. PUBLIC has them, unless somebody took them away.
GRANT EXECUTE ON FUNCTION /*schema*/skald_early TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_near TO /*role*/;
GRANT EXECUTE ON FUNCTION /*schema*/skald_first TO /*role*/;
