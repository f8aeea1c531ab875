package pgstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

//go:embed migration/*.sql
var migrations embed.FS

// oldest is the oldest version of the tables that this build works with: raise it with a migration that a
// station cannot do without. The newest is that of the last file; later ones will do until one says that they
// do not.
const oldest = 1

// Migrations are the files that Migrate applies, in order: NNN_name.sql, with /*schema*/ before each name.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migration")
	if err != nil {
		return migrations // cannot be: the name is a constant
	}
	return sub
}

// A Migration is one file.
type Migration struct {
	Version  int
	Name     string // of the file
	Checksum string // SHA-256 of the file, in hexadecimal

	text   string
	builds int // the oldest version that a build must know after it
}

// MigrateOptions say how to migrate. The zero value works.
type MigrateOptions struct {
	Schema string // where the tables are; made if it is missing. Default "public"
	// Source names this database in every message that it says. Default "/<database>/<schema>". Once set it
	// stays: another one later is a *SourceError.
	Source string

	files fs.FS // instead of Migrations(), in tests of migrating
}

// A ChangedError says that a migration was changed after it had been applied.
type ChangedError struct{ Schema, Name string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("store: %s was applied to schema %s in another text than this build has: do not edit an applied migration", e.Name, e.Schema)
}

// A Database is a *pgxpool.Pool or a *pgx.Conn.
type Database interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Migrate makes the tables, or brings them up to date, in one transaction, and says what it did. Two at once
// go one after the other. It waits for a lock on a table for 200 ms and gives way, so that nobody waits
// behind it for longer; a second later it tries again. Transactions that always overlap, each longer than
// that, would keep it out for ever: so of its 60 tries the second quarter waits for 400 ms, the third for 800
// and the last for 1.6 s. After these 105 s it is a *BusyError; it is one too if ctx ends after a try that
// was in vain.
func Migrate(ctx context.Context, db Database, o *MigrateOptions) ([]Migration, error) {
	m, err := newMigrator(o)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	done, err := m.apply(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", m.explain(err))
	}
	return done, nil
}

// Pending are the migrations that Migrate would apply. It changes nothing.
func Pending(ctx context.Context, db Database, o *MigrateOptions) ([]Migration, error) {
	m, err := newMigrator(o)
	if err != nil {
		return nil, fmt.Errorf("pending migrations: %w", err)
	}
	var out []Migration
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
		if out, err = m.pending(ctx, tx); err == nil && len(out) < len(m.files) {
			err = m.sameSource(ctx, tx)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("pending migrations: %w", m.explain(err))
	}
	return out, nil
}

type migrator struct {
	*core
	source string
	files  []Migration
	exists bool          // the schema
	pause  time.Duration // between two tries for a lock

	db  Database // of a change of the rings, which is many transactions
	did []string
}

func newMigrator(o *MigrateOptions) (*migrator, error) {
	if o == nil {
		o = &MigrateOptions{}
	}
	m := &migrator{core: newCore(nil, &Options{Schema: o.Schema}), source: o.Source, pause: lockPause}
	if m.pg.Err != nil {
		return nil, m.pg.Err
	}
	var err error
	from := o.files
	if from == nil {
		from = Migrations()
	}
	m.files, err = files(from, m.pg.Prefix)
	return m, err
}

// files are the migrations of from, in order, with prefix before each name.
func files(from fs.FS, prefix string) ([]Migration, error) {
	list, err := sqlfile.Migrations(from, ".")
	var out []Migration
	for _, f := range list {
		out = append(out, Migration{Version: f.Version, Name: f.Name, Checksum: f.Checksum,
			text: pgrun.Qualified(f.Text, prefix), builds: f.Builds})
	}
	return out, err
}

// newest is the version of the last migration that this build has.
func newest() int {
	all, err := sqlfile.Migrations(migrations, "migration")
	if err != nil || len(all) == 0 {
		return oldest // cannot be: a test reads them
	}
	return all[len(all)-1].Version
}

// reached is the version that the tables have come to.
func reached(applied string) (int, error) {
	all, err := sqlfile.Migrations(migrations, "migration")
	if err != nil {
		return 0, err
	}
	var have []int
	for text := range strings.SplitSeq(applied, ",") {
		if n, err := strconv.Atoi(text); err == nil {
			have = append(have, n)
		}
	}
	return sqlfile.Reached(all, have), nil
}

// apply does what is to be done, as soon as it has its locks.
func (m *migrator) apply(ctx context.Context, db Database) (done []Migration, err error) {
	err = again(ctx, "a table", m.pause, func(wait time.Duration) error {
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
			done, err = m.migrate(ctx, tx, wait)
			return err
		})
	})
	return done, err
}

// migrate waits for so long for a lock on a table.
func (m *migrator) migrate(ctx context.Context, tx pgx.Tx, wait time.Duration) ([]Migration, error) {
	if err := m.look(ctx, tx); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, m.pg.SQL["LockMigrations"], m.pg.Schema); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := m.look(ctx, tx); err != nil { // again, under the lock
		return nil, err
	}
	if !m.exists {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+strings.TrimSuffix(m.pg.Prefix, ".")); err != nil {
			return nil, fmt.Errorf("make schema: %w", err)
		}
	}
	if _, err := tx.Exec(ctx, m.pg.SQL["CreateMigrations"]); err != nil {
		return nil, fmt.Errorf("make skald_migration: %w", err)
	}
	todo, err := m.pending(ctx, tx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, m.pg.SQL["LockShort"], pgrun.Millis(wait)); err != nil {
		return nil, err
	}
	for _, one := range todo {
		if _, err := tx.Exec(ctx, one.text, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, fmt.Errorf("%s: %w", one.Name, err)
		}
		if _, err := tx.Exec(ctx, m.pg.SQL["InsertMigration"], one.Version, one.Name, one.Checksum,
			one.builds); err != nil {
			return nil, fmt.Errorf("%s: note it: %w", one.Name, err)
		}
	}
	return todo, m.setSource(ctx, tx)
}

// explain says more of a missing right: whatever was refused, it is the migrator's.
func (m *migrator) explain(err error) error {
	if pgrun.SQLState(err) == "42501" {
		return &store.RightError{What: pgrun.Refused(err), Err: err,
			Remedy: "run what `skald roles migrator --schema " + pgrun.ShellWord(m.pg.Schema) +
				"` prints, and migrate as a member of that role"}
	}
	return m.core.pg.Explain(err)
}

// look checks the encoding, fills in the default of the source and finds out whether the schema is there.
func (m *migrator) look(ctx context.Context, tx pgx.Tx) error {
	var server, client, database string
	if err := tx.QueryRow(ctx, m.pg.SQL["Encoding"], m.pg.Schema).Scan(&server, &client, &database,
		&m.exists); err != nil {
		return fmt.Errorf("look at database: %w", err)
	}
	return encodings(server, client, database)
}

// pending compares what was applied with what there is. Migrations of a later build are fine as long as they
// say so: a build that was rolled back must not fail for them.
func (m *migrator) pending(ctx context.Context, tx pgx.Tx) ([]Migration, error) {
	have, err := m.applied(ctx, tx)
	if err != nil {
		return nil, err
	}
	var todo []Migration
	for _, one := range m.files {
		switch was, ok := have[one.Version]; {
		case !ok:
			todo = append(todo, one)
		case was.Checksum != one.Checksum:
			return nil, &ChangedError{Schema: m.pg.Schema, Name: one.Name}
		}
		delete(have, one.Version)
	}
	for version, later := range have {
		if later.builds > m.files[len(m.files)-1].Version {
			return nil, m.pg.SchemaError(version)
		}
	}
	return todo, nil
}

func (m *migrator) applied(ctx context.Context, tx pgx.Tx) (map[int]Migration, error) {
	var there bool
	if err := tx.QueryRow(ctx, m.pg.SQL["HasMigrations"]).Scan(&there); err != nil || !there {
		return nil, err
	}
	rows, err := tx.Query(ctx, m.pg.SQL["Applied"])
	if err != nil {
		return nil, fmt.Errorf("applied migrations: %w", err)
	}
	have := map[int]Migration{}
	var one Migration
	_, err = pgx.ForEachRow(rows, []any{&one.Version, &one.Name, &one.Checksum, &one.builds}, func() error {
		have[one.Version] = one
		return nil
	})
	return have, err
}
