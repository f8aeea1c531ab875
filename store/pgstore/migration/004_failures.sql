-- Every failed attempt is listed, not only the first and the last one.
ALTER TABLE /*schema*/skald_parked ADD COLUMN failures text NOT NULL DEFAULT ''; -- the last 10, as JSON: [{"at", "error", "host"}, ...]; empty: none
