// Package table lets the shop's handlers access their tables through one small interface, similar to sqlc's
// DBTX. The same handlers run in a *sql.Tx on SQLite and in a pgx.Tx on PostgreSQL.
package table

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

// DB runs SQL with placeholders $1, $2, … and with /*schema*/ before each table name. If there is no row,
// the error wraps sql.ErrNoRows.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (rows int64, err error)
	Query(ctx context.Context, sql string, args ...any) (Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) Row
}

// Row is a single result row.
type Row interface{ Scan(into ...any) error }

// Rows iterates over result rows. The caller must close it.
type Rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
	Close()
}

// Home is the database of one service.
type Home[TTx any] struct {
	Store store.Driver[TTx]
	Read  DB              // the tables, outside a transaction
	DB    func(tx TTx) DB // the tables, inside a transaction
	// Begin runs do in a new transaction, and commits it if do returns nil.
	Begin func(ctx context.Context, do func(tx TTx) error) error
	// Make runs a script of CREATE TABLE IF NOT EXISTS. Concurrent calls are safe.
	Make func(ctx context.Context, script string) error
}

// All runs a query and calls one for each row.
func All(ctx context.Context, db DB, sql string, args []any, one func(Row) error) error {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := one(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Time formats t for the shop's tables: text that sorts by time and is the same in both databases.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
