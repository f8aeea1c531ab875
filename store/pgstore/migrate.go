package pgstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/skald-go/skald/store/pgstore/internal/admin"
)

//go:embed migration/*.sql
var migrations embed.FS

// oldest is the oldest version of the tables that this build supports. Raise it together with a migration
// that the build requires. The newest version is that of the last file. The build also accepts later
// versions, until a migration excludes the build.
const oldest = 4

// Migrations returns the files that Migrate applies, in order: NNN_name.sql, with /*schema*/ before each
// name.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migration")
	if err != nil {
		return migrations // unreachable: the name is a constant
	}
	return sub
}

// Migration is one file of Migrations.
type Migration = admin.Migration

// MigrateOptions configures Migrate. The zero value works.
type MigrateOptions struct {
	Schema string // of the tables, created if missing. Default "public"
	// Source identifies this database in every message that it writes. Default "/<database>/<schema>". It
	// cannot change once it is set: a different one returns a *SourceError.
	Source string

	files fs.FS // instead of Migrations(), in tests of migrating
}

// ChangedError reports that a migration was changed after it was applied.
type ChangedError = admin.ChangedError

// SourceError reports that the database already has another source. The source is part of the identity of
// every message. After a change, duplicates would look like new messages.
type SourceError = admin.SourceError

// BusyError reports that Migrate could not lock a table because other transactions use it.
type BusyError = admin.BusyError

// Database is a *pgxpool.Pool or a *pgx.Conn.
type Database = admin.Database

// Migrate creates the tables or updates them, in one transaction, and returns the migrations that it
// applied. Concurrent calls run one after the other.
//
// Migrate tries 60 times to lock the tables, with 1 s between two tries. The first 15 tries wait at most 200
// ms for a table lock, so that no other transaction waits longer because of Migrate. The next three groups of
// 15 wait 400 ms, 800 ms and 1.6 s, for tables with long transactions that always overlap. After about 105 s
// Migrate returns a *BusyError. It also does so if ctx ends after a failed try.
func Migrate(ctx context.Context, db Database, o *MigrateOptions) ([]Migration, error) {
	return admin.Migrate(ctx, db, o.tables())
}

// Pending returns the migrations that Migrate would apply. It changes nothing.
func Pending(ctx context.Context, db Database, o *MigrateOptions) ([]Migration, error) {
	return admin.Pending(ctx, db, o.tables())
}

func (o *MigrateOptions) tables() admin.Options {
	if o == nil {
		o = &MigrateOptions{}
	}
	files := o.files
	if files == nil {
		files = Migrations()
	}
	return admin.Options{DB: newCore(nil, &Options{Schema: o.Schema}).pg, Files: files, Source: o.Source,
		Pause: admin.LockPause}
}

// Step is one migration as SQL for another migration tool, including the record that it was applied. Run it
// as one transaction.
type Step = admin.Step

// Steps returns the SQL of Migrate for an empty schema, one Step for each migration, in order. The encoding
// of the database must be UTF8.
func Steps(o *MigrateOptions) ([]Step, error) { return admin.Steps(o.tables()) }

// Script returns the SQL of all Steps as one text.
func Script(o *MigrateOptions) (string, error) {
	steps, err := Steps(o)
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "-- %s.sql\n%s\n", s.Name, s.SQL)
	}
	return b.String(), err
}

// LeastSlots and MostSlots limit the number of slots in the ring of the outbox: see Resize.
const (
	LeastSlots = admin.LeastSlots
	MostSlots  = admin.MostSlots
)

// ResizeOptions sets the number of slots in the ring of the outbox. The ring is the fixed set of partitions
// that the outbox reuses; each has the rows of one day.
type ResizeOptions struct {
	Schema string // where the tables are. Default "public"
	Outbox int    // number of slots, 4 to 1,000. Retention can be two days less. 0 means no change
}

// Resize changes the number of slots while the system runs, in short transactions, and returns a line for
// each change. You can stop it at any point and run it again. Resize waits for table locks as Migrate does.
func Resize(ctx context.Context, db Database, o *ResizeOptions) ([]string, error) {
	if o == nil {
		o = &ResizeOptions{}
	}
	return admin.Resize(ctx, db, newCore(nil, &Options{Schema: o.Schema}).pg, o.Outbox)
}
