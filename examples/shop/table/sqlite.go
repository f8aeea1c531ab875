package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/skald-go/skald/store"
)

// SQLite returns the home of a service in an open SQLite file.
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

// Queryer has the common methods of *sql.DB and *sql.Tx.
type Queryer interface {
	ExecContext(ctx context.Context, sql string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, sql string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, sql string, args ...any) *sql.Row
}

// SQL accesses the tables in an SQLite database or transaction.
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

// numbered turns $1 into ?1: SQLite numbers the name $1 by its first position.
func numbered(text string) string { return strings.ReplaceAll(text, "$", "?") }

type sqlRows struct{ *sql.Rows }

func (r sqlRows) Close() { _ = r.Rows.Close() } // Err has returned the error
