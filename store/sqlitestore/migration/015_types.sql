-- Which types of messages the processes of a consumer handle, so that one of another build leaves to them what it does not know.

CREATE TABLE skald_type (
	consumer TEXT NOT NULL,
	topic    TEXT NOT NULL,
	type     TEXT NOT NULL,
	at       INTEGER NOT NULL, -- milliseconds since 1970: when a process that handles it was last heard of
	PRIMARY KEY (consumer, topic, type)
) STRICT, WITHOUT ROWID;
