-- How far consumers are in the lanes of the broker, and who has these; and which kept messages are suspected of ending their
-- process.

CREATE TABLE /*schema*/skald_spot (
	consumer text NOT NULL,
	lane     text NOT NULL,
	origin   text NOT NULL, -- what its positions speak of: a topic that was made anew has another one
	position bigint NOT NULL, -- the first that is not finished; -1: not known yet
	reach    bigint NOT NULL, -- the first of which nothing was begun, for certain
	life     text NOT NULL, -- of who has the lane; empty: it was left in peace
	note     text NOT NULL, -- the name of what was stored last: no two are equal
	at       timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (consumer, lane)
) WITH (fillfactor = 50);

-- How often it was claimed without an answer since, and how often its process ended while nothing but it was run.
ALTER TABLE /*schema*/skald_parked ADD COLUMN claims integer NOT NULL DEFAULT 0;
ALTER TABLE /*schema*/skald_parked ADD COLUMN claimer text NOT NULL DEFAULT ''; -- the life of who claimed it last
ALTER TABLE /*schema*/skald_parked ADD COLUMN kills integer NOT NULL DEFAULT 0;
