-- What a person or a dashboard needs to look: payloads can be read, nothing can be written.
GRANT USAGE ON SCHEMA /*itself*/ TO /*role*/;
GRANT SELECT ON /*schema*/skald_migration TO /*role*/;
GRANT SELECT ON /*schema*/skald_setting TO /*role*/;
GRANT SELECT ON /*schema*/skald_outbox TO /*role*/;
GRANT SELECT ON /*schema*/skald_mark TO /*role*/;
GRANT SELECT ON /*schema*/skald_mark_timeless TO /*role*/;
GRANT SELECT ON /*schema*/skald_entity TO /*role*/;
GRANT SELECT ON /*schema*/skald_tick TO /*role*/;
GRANT SELECT ON /*schema*/skald_lane TO /*role*/;
GRANT SELECT ON /*schema*/skald_relay TO /*role*/;
GRANT SELECT ON /*schema*/skald_aside TO /*role*/;
