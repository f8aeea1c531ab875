-- Which redrive a change belongs to: one that was ended half way goes on from here, and its outcome is counted from here.
ALTER TABLE skald_audit ADD COLUMN run TEXT NOT NULL DEFAULT '';
CREATE INDEX skald_audit_run ON skald_audit (run, seq) WHERE run <> '';
