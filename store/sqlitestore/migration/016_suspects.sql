-- What was in hand when a process ended is mostly not what ended it: it is suspected where that happened to it before.

ALTER TABLE skald_spot ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0; -- behind the last that may have been in hand when an earlier owner ended
