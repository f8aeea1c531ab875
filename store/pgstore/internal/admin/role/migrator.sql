-- The role that `skald migrate` runs as. It owns what it makes; where the schema is there it needs nothing of the
-- database. Run this before the first migration, as whoever may make schemas.
CREATE SCHEMA IF NOT EXISTS /*itself*/;
GRANT USAGE, CREATE ON SCHEMA /*itself*/ TO /*role*/;
