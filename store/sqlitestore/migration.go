package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"io/fs"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/admin"
)

//go:embed migration/*.sql
var migrations embed.FS

// oldest is the oldest version of the tables that this build supports. Raise it with a migration that the
// build requires. The newest version is the number of the last file. The build also accepts later versions,
// until a migration excludes this build.
const oldest = 4

// Migrations returns the files that Migrate applies, in order: NNN_name.sql.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migration")
	if err != nil {
		return migrations // unreachable: the name is a constant
	}
	return sub
}

// Migration is one file.
type Migration = admin.Migration

// MigrateOptions configures Migrate. The zero value works.
type MigrateOptions struct {
	// Source identifies this database in every message that it writes. Default "/<file name without
	// extension>/main". It cannot change once it is set: with a different Source, Migrate returns a
	// *SourceError.
	Source string

	files fs.FS // instead of Migrations(), in tests of migrating
}

// SourceError reports that messages of this database already have another source.
type SourceError = admin.SourceError

// ChangedError reports that a migration was changed after it was applied.
type ChangedError = admin.ChangedError

// Migrate creates the tables in the file of db or updates them, each migration in its own transaction. It
// returns the migrations that it applied. Concurrent calls wait for each other.
func Migrate(ctx context.Context, db *sql.DB, o *MigrateOptions) ([]Migration, error) {
	if o == nil {
		o = &MigrateOptions{}
	}
	t := tables()
	if o.files != nil {
		t.Files = o.files
	}
	return t.Apply(ctx, db, o.Source)
}

// Pending returns the migrations that Migrate would apply. It changes nothing.
func Pending(ctx context.Context, db *sql.DB) ([]Migration, error) { return tables().Pending(ctx, db) }

// Script returns the SQL of Migrate for a file without tables, for another migration tool. The SQL has all
// migrations in one transaction, and records that they were applied. An empty source means the default for a
// file at path.
func Script(path, source string) (string, error) { return tables().Script(path, source) }

// Check tests that the tables exist in a version that this build supports, and that the file is writable. It
// returns a *store.SchemaError with the command to run, a *store.RightError, or an outage. It ignores the
// role, because a file has no roles.
func (s *Store) Check(ctx context.Context, _ store.Role) error { return tables().Check(ctx, s.run.SQL) }

func tables() admin.Tables { return admin.Tables{Files: Migrations(), Oldest: oldest} }
