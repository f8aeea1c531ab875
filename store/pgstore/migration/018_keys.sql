-- Statistics of a moment in which most of what is parked is of one key say that any key has nearly all of it. Then the planner walks the table
-- in order instead of looking for the key, for whoever comes with another one, and that walk is all of it.

ALTER TABLE /*schema*/skald_parked ALTER COLUMN key SET (n_distinct = -1);
