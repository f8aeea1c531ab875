package admin

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Migration is one file.
type Migration struct {
	Version  int
	Name     string // of the file
	Checksum string // SHA-256 of the file, in hexadecimal

	text   string
	builds int // the version of the tables that a build must know to work after this migration
}

// Options configures a migration.
type Options struct {
	DB     *sqlexec.DB   // has the name of the schema; Migrate creates a missing schema
	Files  fs.FS         // the migrations
	Source string        // of the messages of this database; "" means "/<database>/<schema>"
	Pause  time.Duration // between two tries to get a lock
}

// ChangedError reports that a migration was changed after it was applied.
type ChangedError struct{ Schema, Name string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("store: %s was applied to schema %s with a text that differs from this build's: do not edit an applied migration", e.Name, e.Schema)
}

// Database is a *pgxpool.Pool or a *pgx.Conn.
type Database interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// bounded runs f in a transaction that the server ends after DefaultHandle without a statement. pgx sends
// BEGIN separately, which is harmless: the transaction has no locks before the timeout is set.
func bounded(ctx context.Context, db Database, pg *sqlexec.DB, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, pg.SQL["BoundIdle"], pgx.QueryExecModeExec,
			sqlexec.Millis(sqlexec.DefaultHandle)); err != nil {
			return fmt.Errorf("bound the transaction: %w", err)
		}
		return f(tx)
	})
}

// Migrate creates the tables or updates them, in one transaction, and returns the migrations that it
// applied.
func Migrate(ctx context.Context, db Database, o Options) ([]Migration, error) {
	m, err := newMigrator(o)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	done, err := m.apply(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", explain(m.pg, err))
	}
	return done, nil
}

// Pending returns the migrations that Migrate would apply. It changes nothing.
func Pending(ctx context.Context, db Database, o Options) ([]Migration, error) {
	m, err := newMigrator(o)
	if err != nil {
		return nil, fmt.Errorf("pending migrations: %w", err)
	}
	var out []Migration
	err = bounded(ctx, db, m.pg, func(tx pgx.Tx) (err error) {
		if out, err = m.pending(ctx, tx); err == nil && len(out) < len(m.files) {
			err = m.sameSource(ctx, tx)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("pending migrations: %w", explain(m.pg, err))
	}
	return out, nil
}

type migrator struct {
	pg     *sqlexec.DB
	source string
	files  []Migration
	exists bool          // the schema exists
	pause  time.Duration // between two tries to get a lock
}

func newMigrator(o Options) (*migrator, error) {
	if o.DB.Err != nil {
		return nil, o.DB.Err
	}
	files, err := migrations(o.Files, o.DB.Prefix)
	return &migrator{pg: o.DB, source: o.Source, files: files, pause: o.Pause}, err
}

// migrations returns the migrations in files, in order. It adds the prefix to the name of each table.
func migrations(files fs.FS, prefix string) ([]Migration, error) {
	list, err := sqlfile.Migrations(files, ".")
	var out []Migration
	for _, f := range list {
		out = append(out, Migration{Version: f.Version, Name: f.Name, Checksum: f.Checksum,
			text: sqlexec.Qualified(f.Text, prefix), builds: f.Builds})
	}
	return out, err
}

// apply applies the pending migrations. It retries until it gets the locks.
func (m *migrator) apply(ctx context.Context, db Database) (done []Migration, err error) {
	err = retryLocked(ctx, "a table", m.pause, func(wait time.Duration) error {
		return bounded(ctx, db, m.pg, func(tx pgx.Tx) (err error) {
			done, err = m.migrate(ctx, tx, wait)
			return err
		})
	})
	return done, err
}

// migrate applies the pending migrations in tx. It waits for a table lock at most for the time lockWait.
func (m *migrator) migrate(ctx context.Context, tx pgx.Tx, lockWait time.Duration) ([]Migration, error) {
	if err := m.checkSchema(ctx, tx); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, m.pg.SQL["LockMigrations"], m.pg.Schema); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	// a second check, because a rival may have migrated before this lock
	if err := m.checkSchema(ctx, tx); err != nil {
		return nil, err
	}
	if !m.exists {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+strings.TrimSuffix(m.pg.Prefix, ".")); err != nil {
			return nil, fmt.Errorf("create schema: %w", err)
		}
	}
	if _, err := tx.Exec(ctx, m.pg.SQL["CreateMigrations"]); err != nil {
		return nil, fmt.Errorf("create skald_migration: %w", err)
	}
	todo, err := m.pending(ctx, tx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, m.pg.SQL["LockShort"], sqlexec.Millis(lockWait)); err != nil {
		return nil, err
	}
	for _, one := range todo {
		if _, err := tx.Exec(ctx, one.text, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, fmt.Errorf("%s: %w", one.Name, err)
		}
		if _, err := tx.Exec(ctx, m.pg.SQL["InsertMigration"], one.Version, one.Name, one.Checksum,
			one.builds); err != nil {
			return nil, fmt.Errorf("%s: record it: %w", one.Name, err)
		}
	}
	return todo, m.setSource(ctx, tx)
}

// explain adds a remedy to the error of a missing right. While migrating, each missing right is one of the
// migrator.
func explain(pg *sqlexec.DB, err error) error {
	if sqlexec.SQLState(err) == "42501" {
		return &store.RightError{What: sqlexec.Refused(err), Err: err,
			Remedy: "run what `skald roles migrator --schema " + sqlexec.ShellWord(pg.Schema) +
				"` prints, and migrate as a member of that role"}
	}
	return pg.Explain(err)
}

// checkSchema checks the encoding and finds out whether the schema exists.
func (m *migrator) checkSchema(ctx context.Context, tx pgx.Tx) error {
	var server, client, database string
	if err := tx.QueryRow(ctx, m.pg.SQL["Encoding"], m.pg.Schema).Scan(&server, &client, &database,
		&m.exists); err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	return sqlexec.CheckEncoding(server, client, database)
}

// pending returns the migrations that are not applied yet. It accepts unknown migrations of a later build if
// they allow this build, so that you can go back to an older build.
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
