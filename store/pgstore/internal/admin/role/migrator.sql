-- The role of `skald migrate`. It owns the tables that it creates; if the schema exists, it needs no right on the database. Run this before
-- the first migration, as a user that may create schemas.
CREATE SCHEMA IF NOT EXISTS /*itself*/;
GRANT USAGE, CREATE ON SCHEMA /*itself*/ TO /*role*/;
