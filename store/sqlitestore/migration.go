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

// oldest is the oldest version of the tables that this build works with: raise it with a migration that a
// station cannot do without. The newest is that of the last file; later ones will do until one says that they
// do not.
const oldest = 3

// Migrations are the files that Migrate applies, in order: NNN_name.sql.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migration")
	if err != nil {
		return migrations // cannot be: the name is a constant
	}
	return sub
}

// Migration is one file.
type Migration = admin.Migration

// MigrateOptions say how to migrate. The zero value works.
type MigrateOptions struct {
	// Source names this database in every message that it says. Default "/<file name without
	// extension>/main". Once set it stays: another one later is a *SourceError.
	Source string

	files fs.FS // instead of Migrations(), in tests of migrating
}

// SourceError says that messages of this database have another source already.
type SourceError = admin.SourceError

// ChangedError says that a migration was changed after it had been applied.
type ChangedError = admin.ChangedError

// Migrate makes or brings up to date the tables in the file of db, each file in a transaction, and says what
// it did. Several at once wait for each other.
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

// Pending are the migrations that Migrate would apply. It changes nothing.
func Pending(ctx context.Context, db *sql.DB) ([]Migration, error) { return tables().Pending(ctx, db) }

// Script is the SQL of Migrate for a file that has no tables yet, to be applied by other means: all files, in
// one transaction, and the notes that they were applied. With source "" it is the default for a file at path.
func Script(path, source string) (string, error) { return tables().Script(path, source) }

// Check says whether the tables are there, in a version that this build can use, in a file that can be
// written: a *store.SchemaError that names `skald migrate`, a *store.RightError, or an outage. A file has no
// roles.
func (s *Store) Check(ctx context.Context, _ store.Role) error { return tables().Check(ctx, s.run.SQL) }

func tables() admin.Tables { return admin.Tables{Files: Migrations(), Oldest: oldest} }
