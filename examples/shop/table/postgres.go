package table

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/store"
)

// A paused instance must not hold the locks of its transaction forever, such as the key of an order that is
// repeated elsewhere. The limit is set in the transaction, because a pooler shares the session.
const begin = "begin isolation level read committed; set local idle_in_transaction_session_timeout = '7s'"

// Postgres returns the home of a service in a schema; "" is the connection's default.
func Postgres(pool *pgxpool.Pool, schema string, s store.Driver[pgx.Tx]) Home[pgx.Tx] {
	begin := func(ctx context.Context, do func(pgx.Tx) error) error {
		return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{BeginQuery: begin}, do)
	}
	prefix := ""
	if schema != "" {
		prefix = pgx.Identifier{schema}.Sanitize() + "."
	}
	return Home[pgx.Tx]{
		Store: s,
		Read:  pgxDB{pool, prefix},
		DB:    func(tx pgx.Tx) DB { return pgxDB{tx, prefix} },
		Begin: begin,
		Make: func(ctx context.Context, script string) error {
			return begin(ctx, func(tx pgx.Tx) error {
				// CREATE TABLE IF NOT EXISTS fails if two transactions run it at the same time.
				if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext($1))`, prefix); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, placed(script, prefix))
				return err
			})
		},
	}
}

// pgxDB accesses the tables in a PostgreSQL database or transaction.
type pgxDB struct {
	q interface { // common methods of *pgxpool.Pool and pgx.Tx
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}
	prefix string
}

// placed puts the schema before each table name. A search_path would not work: a pooler in transaction mode
// may run the statement on another connection.
func placed(text, prefix string) string { return strings.ReplaceAll(text, "/*schema*/", prefix) }

func (d pgxDB) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	tag, err := d.q.Exec(ctx, placed(text, d.prefix), args...)
	return tag.RowsAffected(), err
}

func (d pgxDB) Query(ctx context.Context, text string, args ...any) (Rows, error) {
	return d.q.Query(ctx, placed(text, d.prefix), args...)
}

func (d pgxDB) QueryRow(ctx context.Context, text string, args ...any) Row {
	return d.q.QueryRow(ctx, placed(text, d.prefix), args...)
}
