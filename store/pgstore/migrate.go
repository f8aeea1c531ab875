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

// oldest is the oldest version of the tables that this build works with: raise it with a migration that a
// station cannot do without. The newest is that of the last file; later ones will do until one says that they
// do not.
const oldest = 2

// Migrations are the files that Migrate applies, in order: NNN_name.sql, with /*schema*/ before each name.
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
	Schema string // where the tables are; made if it is missing. Default "public"
	// Source names this database in every message that it says. Default "/<database>/<schema>". Once set it
	// stays: another one later is a *SourceError.
	Source string

	files fs.FS // instead of Migrations(), in tests of migrating
}

// ChangedError says that a migration was changed after it had been applied.
type ChangedError = admin.ChangedError

// SourceError says that the database has another name than the one that was asked for. The name is part of
// the identity of every message: changing it would make repeats look new.
type SourceError = admin.SourceError

// BusyError says that a lock was not to be had: whoever works on goes first.
type BusyError = admin.BusyError

// Database is a *pgxpool.Pool or a *pgx.Conn.
type Database = admin.Database

// Migrate makes the tables, or brings them up to date, in one transaction, and says what it did. Two at once
// go one after the other. It waits for a lock on a table for 200 ms and gives way, so that nobody waits
// behind it for longer; a second later it tries again. Transactions that always overlap, each longer than
// that, would keep it out for ever: so of its 60 tries the second quarter waits for 400 ms, the third for 800
// and the last for 1.6 s. After these 105 s it is a *BusyError; it is one too if ctx ends after a try that
// was in vain.
func Migrate(ctx context.Context, db Database, o *MigrateOptions) ([]Migration, error) {
	return admin.Migrate(ctx, db, o.tables())
}

// Pending are the migrations that Migrate would apply. It changes nothing.
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

// Step is one migration as SQL for a tool of your own, with the note that it was applied. Run it as one
// transaction.
type Step = admin.Step

// Steps are what Migrate would do to an empty schema, one for each migration, in order. The database's
// encoding is to be UTF8.
func Steps(o *MigrateOptions) ([]Step, error) { return admin.Steps(o.tables()) }

// Script is all steps in one.
func Script(o *MigrateOptions) (string, error) {
	steps, err := Steps(o)
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "-- %s.sql\n%s\n", s.Name, s.SQL)
	}
	return b.String(), err
}

// LeastSlots and MostSlots bound a ring.
const (
	LeastSlots = admin.LeastSlots
	MostSlots  = admin.MostSlots
)

// ResizeOptions say how many slots the ring of the outbox is to have.
type ResizeOptions struct {
	Schema string // where the tables are. Default "public"
	Outbox int    // of a day; rows can be kept two days less. 4 to 1,000; 0: as it is
}

// Resize changes the ring while everything works, in short transactions: it says what it did. It can be ended
// at any point and run again. For each lock it waits, gives way and tries again as Migrate does: for 200 ms
// at first.
func Resize(ctx context.Context, db Database, o *ResizeOptions) ([]string, error) {
	if o == nil {
		o = &ResizeOptions{}
	}
	return admin.Resize(ctx, db, newCore(nil, &Options{Schema: o.Schema}).pg, o.Outbox)
}
