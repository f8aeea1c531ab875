-- How far consumers are in the lanes of the broker, and who has these; and which kept messages are suspected of ending their
-- process.

CREATE TABLE skald_spot (
	consumer TEXT NOT NULL,
	lane     TEXT NOT NULL,
	origin   TEXT NOT NULL, -- what its positions speak of: a topic that was made anew has another one
	position INTEGER NOT NULL, -- the first that is not finished; -1: not known yet
	reach    INTEGER NOT NULL, -- the first of which nothing was begun, for certain
	life     TEXT NOT NULL, -- of who has the lane; empty: it was left in peace
	note     TEXT NOT NULL, -- the name of what was stored last: no two are equal
	at       INTEGER NOT NULL, -- milliseconds since 1970
	PRIMARY KEY (consumer, lane)
) STRICT, WITHOUT ROWID;

-- How often it was claimed without an answer since, and how often its process ended while nothing but it was run.
ALTER TABLE skald_parked ADD COLUMN claims INTEGER NOT NULL DEFAULT 0;
ALTER TABLE skald_parked ADD COLUMN claimer TEXT NOT NULL DEFAULT ''; -- the life of who claimed it last
ALTER TABLE skald_parked ADD COLUMN kills INTEGER NOT NULL DEFAULT 0;
