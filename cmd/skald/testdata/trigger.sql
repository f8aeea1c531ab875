-- Writes the outbox by a trigger: the row's own lock comes before the message. AFTER and FOR EACH ROW.
CREATE TABLE purchase (id text PRIMARY KEY, doc jsonb, scan bytea);

CREATE FUNCTION say_purchase() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		INSERT INTO skald_outbox (topic, key, type) VALUES ('orders', OLD.id, 'tombstone');
		RETURN NULL;
	END IF;
	INSERT INTO skald_outbox (topic, key, type, data) VALUES ('orders', NEW.id, 'json', to_jsonb(NEW.doc)::text);
	INSERT INTO skald_outbox (topic, type, data) VALUES ('orders', 'nokey', to_jsonb(NEW.doc)::text);
	INSERT INTO skald_outbox (topic, key_bytes, type, content_type, data_bytes, headers)
	VALUES ('orders', '\xff006b', 'binary', 'application/octet-stream', NEW.scan, '[["a", "AA=="]]');
	RETURN NULL;
END $$;

CREATE TRIGGER say AFTER INSERT OR DELETE ON purchase FOR EACH ROW EXECUTE FUNCTION say_purchase();
