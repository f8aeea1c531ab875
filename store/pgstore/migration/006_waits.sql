-- A relay for which there is no lane waits for one. It is counted apart from those that work, so that it may look the
-- more seldom the more of its kind there are.
ALTER TABLE /*schema*/skald_relay ADD COLUMN waits boolean NOT NULL DEFAULT false;
