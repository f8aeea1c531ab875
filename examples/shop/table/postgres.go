package table

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/store"
)

// Postgres is the home of a service in a schema that the search_path of pool names.
func Postgres(pool *pgxpool.Pool, s store.Driver[pgx.Tx]) Home[pgx.Tx] {
	begin := func(ctx context.Context, do func(pgx.Tx) error) error {
		return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, do)
	}
	return Home[pgx.Tx]{
		Store: s,
		Read:  PGX(pool),
		DB:    func(tx pgx.Tx) DB { return PGX(tx) },
		Begin: begin,
		Make: func(ctx context.Context, script string) error {
			return begin(ctx, func(tx pgx.Tx) error {
				// CREATE TABLE IF NOT EXISTS fails when two do it at once.
				if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext(current_schema()))`); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, script)
				return err
			})
		},
	}
}

// PGXQueryer is what *pgxpool.Pool and pgx.Tx have in common.
type PGXQueryer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// PGX is the tables in a PostgreSQL database or transaction.
func PGX(q PGXQueryer) DB { return pgxDB{q} }

type pgxDB struct{ q PGXQueryer }

func (d pgxDB) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	tag, err := d.q.Exec(ctx, text, args...)
	return tag.RowsAffected(), err
}

func (d pgxDB) Query(ctx context.Context, text string, args ...any) (Rows, error) {
	return d.q.Query(ctx, text, args...)
}

func (d pgxDB) QueryRow(ctx context.Context, text string, args ...any) Row {
	return d.q.QueryRow(ctx, text, args...)
}
