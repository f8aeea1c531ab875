package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/skald-go/skald/store"
)

// SQLite is the home of a service in an SQLite file that db has open.
func SQLite(db *sql.DB, s store.Driver[*sql.Tx]) Home[*sql.Tx] {
	return Home[*sql.Tx]{
		Store: s,
		Read:  SQL(db),
		DB:    func(tx *sql.Tx) DB { return SQL(tx) },
		Begin: func(ctx context.Context, do func(*sql.Tx) error) error { return beginSQL(ctx, db, do) },
		Make: func(ctx context.Context, script string) error {
			return beginSQL(ctx, db, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, script)
				return err
			})
		},
	}
}

func beginSQL(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Queryer is what *sql.DB and *sql.Tx have in common.
type Queryer interface {
	ExecContext(ctx context.Context, sql string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, sql string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, sql string, args ...any) *sql.Row
}

// SQL is the tables in an SQLite database or transaction.
func SQL(q Queryer) DB { return sqlDB{q} }

type sqlDB struct{ Queryer }

func (d sqlDB) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	res, err := d.ExecContext(ctx, numbered(text), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (d sqlDB) Query(ctx context.Context, text string, args ...any) (Rows, error) {
	rows, err := d.QueryContext(ctx, numbered(text), args...)
	if err != nil {
		return nil, err
	}
	return sqlRows{rows}, nil
}

func (d sqlDB) QueryRow(ctx context.Context, text string, args ...any) Row {
	return d.QueryRowContext(ctx, numbered(text), args...)
}

// numbered makes $1 into ?1: to SQLite $1 is a name, numbered by where it first stands.
func numbered(text string) string { return strings.ReplaceAll(text, "$", "?") }

type sqlRows struct{ *sql.Rows }

func (r sqlRows) Close() { _ = r.Rows.Close() } // what there is to know, Err has told
