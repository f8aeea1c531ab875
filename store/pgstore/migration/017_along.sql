-- What waits directly behind the first of a key is read along with it, and is in hand by the claim of that one.

ALTER TABLE /*schema*/skald_parked ADD COLUMN along bigint; -- the place of the last that was read along when it was claimed; NULL: none was
