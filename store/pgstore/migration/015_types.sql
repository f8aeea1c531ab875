-- Which types of messages the processes of a consumer handle, so that one of another build leaves to them what it does not know.

CREATE TABLE /*schema*/skald_type (
	consumer text NOT NULL,
	topic    text NOT NULL,
	type     text NOT NULL,
	at       timestamptz NOT NULL DEFAULT clock_timestamp(), -- when a process that handles it was last heard of
	PRIMARY KEY (consumer, topic, type)
) WITH (fillfactor = 50);
