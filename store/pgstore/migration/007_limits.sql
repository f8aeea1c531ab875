-- The limits of a row are asked by a trigger, no longer by a CHECK, and of those rows only for which nobody vouches: a CHECK
-- is read and prepared anew for each statement, all of it, and took as long as the INSERT itself where many write at once.
-- Who fills bucket has held the row to its limits; a relay holds it to them again before it publishes it. What a relay
-- could not even read is never taken on trust: a bucket that is none, headers, two keys, two payloads.

CREATE FUNCTION /*schema*/skald_limits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF /*schema*/skald_limits_ok(NEW.topic, NEW.type, NEW.key, NEW.key_bytes, NEW.data, NEW.data_bytes, NEW.subject, NEW.headers, NEW.bucket) THEN
		RETURN NEW;
	END IF;
	RETURN NULL; -- cannot be: it says yes, or raises
END $$;

-- Triggers fire in the order of their names: behind those of a user, who may have changed the row.
CREATE TRIGGER zz_skald_limits BEFORE INSERT OR UPDATE ON /*schema*/skald_outbox FOR EACH ROW
WHEN (NEW.bucket IS NULL OR NEW.bucket NOT BETWEEN 0 AND 1023 OR NEW.headers IS NOT NULL
	OR NEW.key_bytes IS NOT NULL AND NEW.key IS NOT NULL OR NEW.data_bytes IS NOT NULL AND NEW.data IS NOT NULL)
EXECUTE FUNCTION /*schema*/skald_limits();

ALTER TABLE /*schema*/skald_outbox DROP CONSTRAINT skald_outbox_limits;
