-- What a relay saw that must not be: that the file went back in time.
CREATE TABLE skald_setting (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO skald_setting (name, value) VALUES ('moved', '');
