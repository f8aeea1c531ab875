-- name: CreateMigrations
CREATE TABLE IF NOT EXISTS skald_migration (
	version  INTEGER PRIMARY KEY,
	name     TEXT NOT NULL,
	checksum TEXT NOT NULL, -- SHA-256 of the file
	builds   INTEGER NOT NULL DEFAULT 0, -- the oldest version that a build must know to work on; 0: any
	at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

-- name: HasTable
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1;

-- name: Applied
SELECT version, name, checksum, builds FROM skald_migration ORDER BY version;

-- name: InsertMigration
INSERT INTO skald_migration (version, name, checksum, builds) VALUES (?1, ?2, ?3, ?4);

-- name: Source
SELECT dflt_value FROM pragma_table_info('skald_outbox') WHERE name = 'source';

-- name: File
SELECT file FROM pragma_database_list WHERE name = 'main';

-- name: TryToWrite
-- Tests whether the file is writable. It deletes nothing, because no row has this id.
DELETE FROM skald_commit_guard WHERE id = -1;
