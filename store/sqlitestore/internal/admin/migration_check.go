package admin

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/skald-go/skald/internal/sqlfile"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// Check tests that the tables exist in a version that this build supports, and that the file is writable. It
// returns a *store.SchemaError with the command to run, a *store.RightError, or an outage.
func (t Tables) Check(ctx context.Context, db *sql.DB) error {
	if err := sqlexec.Engine(ctx, db); err != nil {
		return sqlexec.Failed("check", err)
	}
	m, err := t.migrator(ctx, db)
	if err != nil {
		return sqlexec.Failed("check", err)
	}
	have, err := m.applied(ctx, db)
	if err != nil {
		return sqlexec.Failed("check", err)
	}
	if err := m.usable(have); err != nil {
		return err
	}
	if version := sqlfile.Reached(m.files, slices.Collect(maps.Keys(have))); version < t.Oldest {
		return &store.SchemaError{Where: m.file, Have: version, Need: t.Oldest, Last: m.newest(),
			Remedy: "run: skald migrate --store sqlite:" + m.file}
	}
	return m.writable(ctx)
}

// writable returns an error if the file is read-only. It runs a statement that writes nothing but needs the
// right to write. A busy file counts as writable, because SQLite checks the right before the lock.
func (m *migrator) writable(ctx context.Context) error {
	tx, err := m.db.BeginTx(ctx, nil)
	if sqlexec.Busy(err) {
		return nil
	}
	if err != nil {
		return sqlexec.Failed("check", err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, m.text["TryToWrite"]); err != nil {
		return sqlexec.Failed("check", err)
	}
	return nil
}
