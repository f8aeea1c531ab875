package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/table"
)

// schemas are the schemas of a run in one PostgreSQL database.
type schemas struct {
	at, prefix string
	cfg        *pgxpool.Config
	pool       *pgxpool.Pool // nil until it is needed
	sql        map[string]string
}

// postgres returns the playground in the database at the URL. Its schemas have names that begin with the
// prefix. The argument typed is the value of --store for a printed command. postgres opens no connection.
func postgres(url, prefix, typed string) (*playground[pgx.Tx], error) {
	statements, err := table.Statements(queries)
	if err != nil {
		return nil, err
	}
	cfg, err := connect.PoolConfig(url)
	if err != nil {
		return nil, err
	}
	theirs := cfg.Copy()
	if !strings.Contains(url, "pool_max_conns=") {
		theirs.MaxConns = serviceConns
	}
	cfg.MaxConns = 1
	s := &schemas{at: url, prefix: prefix, cfg: cfg, sql: statements}
	return &playground[pgx.Tx]{Databases: place.Schemas(theirs, prefix, typed), groundKind: s}, nil
}

// serviceConns is the largest number of connections of a service, unless the URL has pool_max_conns.
const serviceConns = 6

func (s *schemas) called(service string) string { return s.prefix + "_" + service }

func (s *schemas) URL() string { return connect.Shown(s.at) }

func (s *schemas) Remains() string {
	names := make([]string, 0, len(place.Names()))
	for _, name := range place.Names() {
		names = append(names, pgx.Identifier{s.called(name)}.Sanitize())
	}
	return fmt.Sprintf("The databases are the schemas %s at %s", strings.Join(names, ", "), s.URL())
}

// open opens the pool at the first call.
func (s *schemas) open(ctx context.Context) (*pgxpool.Pool, error) {
	if s.pool == nil {
		pool, err := pgxpool.NewWithConfig(ctx, s.cfg)
		if err != nil {
			return nil, err
		}
		s.pool = pool
	}
	return s.pool, nil
}

func (s *schemas) Present(ctx context.Context, service string) (names []string, err error) {
	pool, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	err = table.All(ctx, table.Postgres(pool, "", nil).Read, s.sql["TablesInSchema"],
		[]any{s.called(service)}, func(row table.Row) error {
			names = append(names, "")
			return row.Scan(&names[len(names)-1])
		})
	return names, err
}

func (s *schemas) bare(ctx context.Context) (table.Home[pgx.Tx], error) {
	pool, err := s.open(ctx)
	if err != nil {
		return table.Home[pgx.Tx]{}, err
	}
	return table.Postgres(pool, s.called("order"), nil), nil
}

// First returns the statement that creates the schema, unless the schema exists.
func (s *schemas) First(ctx context.Context) (string, error) {
	var there bool
	err := s.pool.QueryRow(ctx,
		"SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text)",
		s.called("order")).Scan(&there)
	if err != nil || there {
		return "", err
	}
	return "CREATE SCHEMA " + pgx.Identifier{s.called("order")}.Sanitize(), nil
}

// Lock opens a transaction on a separate connection.
func (s *schemas) Lock(ctx context.Context) (func(), error) {
	conn, err := connect.Postgres(ctx, s.cfg)
	if err != nil {
		return nil, err
	}
	release := func() { _ = conn.Close(context.WithoutCancel(ctx)) }
	held := false
	for end := time.Now().Add(lockWait); err == nil && !held; {
		// the server may still have the session of a killed demo
		var tx pgx.Tx
		if tx, err = conn.Begin(ctx); err == nil {
			err = tx.QueryRow(ctx, s.sql["Lock"], s.prefix).Scan(&held)
		}
		if err == nil && !held {
			err = tx.Rollback(ctx)
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-time.After(100 * time.Millisecond):
			}
			if time.Now().After(end) {
				err = lockedError(s.URL() + ", --prefix " + s.prefix)
			}
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

const lockWait = 5 * time.Second

// foreign drops the demo's objects in a transaction that it rolls back. The server then reports objects of
// other programs that depend on them, or that remain in the schema.
func (s *schemas) foreign(ctx context.Context, service string) (what string, err error) {
	err = s.dropAll(ctx, service, func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) })
	if reply := (*pgconn.PgError)(nil); errors.As(err, &reply) && reply.Code == dependsOnIt {
		return strings.ReplaceAll(reply.Detail, "\n", "; "), nil
	}
	return "", err
}

// dependsOnIt is the SQLSTATE for a DROP of an object that another object depends on.
const dependsOnIt = "2BP01"

func (s *schemas) drop(ctx context.Context, service string) error {
	return s.dropAll(ctx, service, func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) })
}

// dropAll drops the demo's objects in a schema, and then the schema, in one transaction. It calls the
// function finish to commit or to roll back. It never uses CASCADE, which could drop objects of other
// programs.
func (s *schemas) dropAll(ctx context.Context, service string,
	finish func(context.Context, pgx.Tx) error) error {
	pool, err := s.open(ctx)
	if err != nil {
		return err
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after end there is nothing to undo
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '10s'"); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, s.sql["Drops"], s.called(service), tables(service))
	if err != nil {
		return err
	}
	drops, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, statement := range drops {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return finish(ctx, tx)
}

func (s *schemas) clean() (string, error) { return "", nil }
func (s *schemas) Sweep() error           { return nil }

func (s *schemas) close() error {
	if s.pool != nil {
		s.pool.Close()
	}
	return nil
}
