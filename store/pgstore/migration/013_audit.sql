-- Which redrive a change belongs to: one that was ended half way goes on from here, and its outcome is counted from here.
ALTER TABLE /*schema*/skald_audit ADD COLUMN run text NOT NULL DEFAULT '';
CREATE INDEX skald_audit_run ON /*schema*/skald_audit (run, seq) WHERE run <> '';
