package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlrun"
)

//go:embed migration/*.sql
var migrations embed.FS

// oldest is the oldest version of the tables that this build works with: raise it with a migration that a
// station cannot do without. The newest is that of the last file; later ones will do until one says that they
// do not.
const oldest = 1

// Migrations are the files that Migrate applies, in order: NNN_name.sql.
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
}

// MigrateOptions say how to migrate. The zero value works.
type MigrateOptions struct {
	// Source names this database in every message that it says. Default "/<file name without
	// extension>/main". Once set it stays: another one later is a *SourceError.
	Source string

	files fs.FS // instead of Migrations(), in tests of migrating
}

// SourceError says that messages of this database have another source already.
type SourceError struct{ Where, Have, Want string }

func (e *SourceError) Error() string {
	return fmt.Sprintf("migrate: messages of %s have the source %q; it cannot become %q", e.Where,
		e.Have, e.Want)
}

// ChangedError says that a migration was changed after it had been applied.
type ChangedError struct{ Where, Name string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf(
		"migrate: %s was applied to %s in another text than this build has: do not edit an applied migration",
		e.Name, e.Where)
}

// Migrate makes or brings up to date the tables in the file of db, each file in a transaction, and says what
// it did. Several at once wait for each other.
func Migrate(ctx context.Context, db *sql.DB, o *MigrateOptions) (applied []Migration, err error) {
	if o == nil {
		o = &MigrateOptions{}
	}
	m, err := newMigrator(ctx, db, o.files)
	if err != nil {
		return nil, sqlrun.Failed("migrate", err)
	}
	m.source = o.Source
	have, err := m.applied(ctx, db)
	if err == nil {
		err = m.usable(have)
	}
	if err != nil {
		return nil, sqlrun.Failed("migrate", err)
	}
	for _, one := range m.files {
		did, err := m.apply(ctx, one)
		if err != nil {
			return applied, sqlrun.Failed("migrate "+one.Name, err)
		}
		if did {
			applied = append(applied, Migration{one.Version, one.Name, one.Checksum})
		}
	}
	return applied, m.sameSource(ctx)
}

// Pending are the migrations that Migrate would apply. It changes nothing.
func Pending(ctx context.Context, db *sql.DB) ([]Migration, error) {
	m, err := newMigrator(ctx, db, nil)
	if err != nil {
		return nil, sqlrun.Failed("pending migrations", err)
	}
	have, err := m.applied(ctx, db)
	if err != nil {
		return nil, sqlrun.Failed("pending migrations", err)
	}
	var out []Migration
	for _, one := range m.files {
		switch was, ok := have[one.Version]; {
		case !ok:
			out = append(out, Migration{one.Version, one.Name, one.Checksum})
		case was.Checksum != one.Checksum:
			return nil, &ChangedError{m.file, one.Name}
		}
	}
	return out, m.usable(have)
}

type migrator struct {
	db     *sql.DB
	text   map[string]string
	files  []sqlfile.Migration
	file   string
	source string
}

// newMigrator reads the migrations of from; nil: those of this build.
func newMigrator(ctx context.Context, db *sql.DB, from fs.FS) (*migrator, error) {
	if from == nil {
		from = Migrations()
	}
	text, err := texts()
	if err != nil {
		return nil, err
	}
	m := &migrator{db: db, text: text}
	if m.files, err = sqlfile.Migrations(from, "."); err != nil {
		return nil, err
	}
	err = db.QueryRowContext(ctx, text["File"]).Scan(&m.file)
	return m, err
}

// newest is the version of the last file.
func (m *migrator) newest() int {
	if len(m.files) == 0 {
		return oldest // cannot be: a test reads them
	}
	return m.files[len(m.files)-1].Version
}

// usable fails where a later build has made of the tables what this one cannot use. What later builds have
// only added is fine: a build that was rolled back must not fail for it.
func (m *migrator) usable(have map[int]sqlfile.Migration) error {
	version, builds := 0, 0
	for _, one := range have {
		version, builds = max(version, one.Version), max(builds, one.Builds)
	}
	if builds <= m.newest() {
		return nil
	}
	return &store.SchemaError{Where: m.file, Have: version, Need: oldest, Last: m.newest(),
		Remedy: "run a newer build"}
}

// querier is a *sql.DB or a *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row
}

// applied are the migrations that the file has, by version.
func (m *migrator) applied(ctx context.Context, q querier) (map[int]sqlfile.Migration, error) {
	var n int
	if err := q.QueryRowContext(ctx, m.text["HasTable"], "skald_migration").Scan(&n); err != nil || n == 0 {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, m.text["Applied"])
	if err != nil {
		return nil, err
	}
	list, err := sqlrun.Collect(rows, func(scan func(...any) error) (one sqlfile.Migration, err error) {
		err = scan(&one.Version, &one.Name, &one.Checksum, &one.Builds)
		return one, err
	})
	have := map[int]sqlfile.Migration{}
	for _, one := range list {
		have[one.Version] = one
	}
	return have, err
}

// apply applies one file, unless it was applied before.
func (m *migrator) apply(ctx context.Context, one sqlfile.Migration) (did bool, err error) {
	tx, err := m.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() {
		if !did {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	have, err := m.applied(ctx, tx)
	if err != nil {
		return false, err
	}
	if was, ok := have[one.Version]; ok {
		if was.Checksum != one.Checksum {
			return false, &ChangedError{m.file, one.Name}
		}
		return false, nil
	}
	text := strings.ReplaceAll(one.Text, "/*source*/''", quote(m.wanted()))
	for _, q := range []string{m.text["CreateMigrations"], text} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return false, err
		}
	}
	if _, err := tx.ExecContext(ctx, m.text["InsertMigration"], one.Version, one.Name, one.Checksum,
		one.Builds); err != nil {
		return false, err
	}
	if err := tx.Commit(); err != nil {
		return false, err
	}
	return true, nil
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func (m *migrator) wanted() string {
	if m.source != "" {
		return m.source
	}
	base := filepath.Base(m.file)
	return "/" + strings.TrimSuffix(base, filepath.Ext(base)) + "/main"
}

// sameSource finds out that another source was asked for than the file has.
func (m *migrator) sameSource(ctx context.Context) error {
	var have string
	if err := m.db.QueryRowContext(ctx, m.text["Source"]).Scan(&have); err != nil {
		return sqlrun.Failed("migrate", fmt.Errorf("read source: %w", err))
	}
	if m.source == "" || have == quote(m.source) {
		return nil
	}
	return &SourceError{Where: m.file, Have: strings.ReplaceAll(strings.Trim(have, "'"), "''", "'"),
		Want: m.source}
}

// Check says whether the tables are there, in a version that this build can use, in a file that can be
// written: a *store.SchemaError that names `skald migrate`, a *store.RightError, or an outage. A file has no
// roles.
func (s *Store) Check(ctx context.Context, _ store.Role) error {
	if err := sqlrun.Engine(ctx, s.run.SQL); err != nil {
		return sqlrun.Failed("check", err)
	}
	m, err := newMigrator(ctx, s.run.SQL, nil)
	if err != nil {
		return sqlrun.Failed("check", err)
	}
	have, err := m.applied(ctx, s.run.SQL)
	if err != nil {
		return sqlrun.Failed("check", err)
	}
	if err := m.usable(have); err != nil {
		return err
	}
	if version := sqlfile.Reached(m.files, slices.Collect(maps.Keys(have))); version < oldest {
		return &store.SchemaError{Where: m.file, Have: version, Need: oldest, Last: m.newest(),
			Remedy: "run: skald migrate --store sqlite:" + m.file}
	}
	return m.writable(ctx)
}

// writable tries a statement that would write.
func (m *migrator) writable(ctx context.Context) error {
	tx, err := m.db.BeginTx(ctx, nil)
	if err != nil {
		return sqlrun.Failed("check", err)
	}
	defer func() { _ = tx.Rollback() }() // it has changed nothing
	if _, err := tx.ExecContext(ctx, m.text["TakeBack"], -1); err != nil {
		return sqlrun.Failed("check", err)
	}
	return nil
}
