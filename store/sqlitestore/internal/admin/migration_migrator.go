package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

type migrator struct {
	db     *sql.DB
	text   map[string]string
	files  []sqlfile.Migration
	file   string
	source string
	oldest int // as in Tables
}

func (t Tables) migrator(ctx context.Context, db *sql.DB) (*migrator, error) {
	text, err := setup()
	if err != nil {
		return nil, err
	}
	m := &migrator{db: db, text: text, oldest: t.Oldest}
	if m.files, err = sqlfile.Migrations(t.Files, "."); err != nil {
		return nil, err
	}
	err = db.QueryRowContext(ctx, text["File"]).Scan(&m.file)
	return m, err
}

// newest returns the version of the last migration.
func (m *migrator) newest() int {
	if len(m.files) == 0 {
		return m.oldest // unreachable: a test reads the files
	}
	return m.files[len(m.files)-1].Version
}

// usable returns an error if a later build changed the tables so that this build cannot use them. It accepts
// additions of later builds, so that you can go back to an older build.
func (m *migrator) usable(have map[int]sqlfile.Migration) error {
	version, builds := 0, 0
	for _, one := range have {
		version, builds = max(version, one.Version), max(builds, one.Builds)
	}
	if builds <= m.newest() {
		return nil
	}
	return &store.SchemaError{Where: m.file, Have: version, Need: m.oldest, Last: m.newest(),
		Remedy: "run a newer build"}
}

// querier is a *sql.DB or a *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row
}

// applied returns the migrations that were applied to the file, by version.
func (m *migrator) applied(ctx context.Context, q querier) (map[int]sqlfile.Migration, error) {
	var n int
	if err := q.QueryRowContext(ctx, m.text["HasTable"], "skald_migration").Scan(&n); err != nil || n == 0 {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, m.text["Applied"])
	if err != nil {
		return nil, err
	}
	list, err := sqlexec.Collect(rows, func(scan func(...any) error) (one sqlfile.Migration, err error) {
		err = scan(&one.Version, &one.Name, &one.Checksum, &one.Builds)
		return one, err
	})
	have := map[int]sqlfile.Migration{}
	for _, one := range list {
		have[one.Version] = one
	}
	return have, err
}

// apply applies one migration, unless it is already applied.
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

// sameSource returns a *SourceError if the requested source differs from that of the file.
func (m *migrator) sameSource(ctx context.Context) error {
	var have string
	if err := m.db.QueryRowContext(ctx, m.text["Source"]).Scan(&have); err != nil {
		return sqlexec.Failed("migrate", fmt.Errorf("read source: %w", err))
	}
	if m.source == "" || have == quote(m.source) {
		return nil
	}
	return &SourceError{Where: m.file, Have: strings.ReplaceAll(strings.Trim(have, "'"), "''", "'"),
		Want: m.source}
}
