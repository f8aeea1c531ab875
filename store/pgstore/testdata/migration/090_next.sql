-- A migration of a build to come, for the tests of migrating alone: it needs a table that relays use, for a moment.
ALTER TABLE /*schema*/skald_relay ADD COLUMN next text;
