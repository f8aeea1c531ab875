// Package table is how the shop's handlers reach their own tables: one small interface, as sqlc's DBTX, so
// that the same handlers run in a *sql.Tx on SQLite and in a pgx.Tx on PostgreSQL.
package table

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

// A DB runs SQL whose placeholders are $1, $2, …, and in which /*schema*/ stands before each table. A missing
// row is an error that wraps sql.ErrNoRows.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (rows int64, err error)
	Query(ctx context.Context, sql string, args ...any) (Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) Row
}

// A Row is one row, read by Scan.
type Row interface{ Scan(into ...any) error }

// Rows are read with Next and Scan, and closed.
type Rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
	Close()
}

// A Home is the database of one service.
type Home[TTx any] struct {
	Store store.Driver[TTx]
	Read  DB              // the tables, outside of transactions
	DB    func(tx TTx) DB // the tables, inside a transaction
	// Begin runs do in a transaction of its own, and commits it if do returns nil.
	Begin func(ctx context.Context, do func(tx TTx) error) error
	// Make runs a script of CREATE TABLE IF NOT EXISTS; two at once do no harm.
	Make func(ctx context.Context, script string) error
}

// All reads every row of a query; each is scanned by one.
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

// Time is t as the shop's tables keep it: text that sorts, which both databases read alike.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
