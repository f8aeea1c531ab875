package place

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/store/pgstore"
)

// maxConns is how many connections an instance of a service opens at most, unless the URL has pool_max_conns.
const maxConns = 6

// connectTimeout is how long a server may take to answer, unless the URL has connect_timeout.
const connectTimeout = 10 * time.Second

// Postgres is the databases in one PostgreSQL database, one schema for each service: prefix, an underscore,
// the service. It touches nothing yet.
func Postgres(at, prefix string) (*Databases[pgx.Tx], error) {
	cfg, err := pgxpool.ParseConfig(at)
	if err != nil {
		// pgx leaves the password out of its error.
		return nil, &UsageError{What: err.Error() + ": the store is postgres://user@host:port/database"}
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	if !strings.Contains(at, "pool_max_conns=") {
		cfg.MaxConns = maxConns
	}
	if !strings.Contains(at, "default_query_exec_mode=") {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // works through PgBouncer, too
	}
	return Schemas(cfg, prefix, `"$SKALD_STORE"`), nil // there may be a password in the URL
}

// Schemas is Postgres with connections as cfg makes them. Store is how a command names the server, as a word
// of a shell.
func Schemas(cfg *pgxpool.Config, prefix, store string) *Databases[pgx.Tx] {
	return databases(schemas{cfg, prefix, store})
}

type schemas struct {
	cfg           *pgxpool.Config
	prefix, store string
}

func (s schemas) schema(service string) string { return s.prefix + "_" + service }

func (s schemas) flags(service string) string {
	return "--store " + s.store + " --schema " + quoted(s.schema(service))
}

func (s schemas) prepare(ctx context.Context, service string) error {
	pool, err := pgxpool.NewWithConfig(ctx, s.cfg.Copy())
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pgstore.Migrate(ctx, pool, &pgstore.MigrateOptions{Schema: s.schema(service)})
	return err
}

func (s schemas) empty(ctx context.Context, name string) error {
	pool, err := pgxpool.NewWithConfig(ctx, s.cfg.Copy())
	if err != nil {
		return err
	}
	defer pool.Close()
	if there, err := s.there(ctx, pool, name); err != nil || there {
		// it may have been made by somebody with more rights
		return err
	}
	_, err = pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{s.schema(name)}.Sanitize())
	return err
}

func (s schemas) there(ctx context.Context, pool *pgxpool.Pool, name string) (there bool, err error) {
	const find = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)`
	err = pool.QueryRow(ctx, find, s.schema(name)).Scan(&there)
	return there, err
}

func (s schemas) open(ctx context.Context,
	service string) (home table.Home[pgx.Tx], closing func() error, err error) {
	pool, err := pgxpool.NewWithConfig(ctx, s.cfg.Copy())
	if err != nil {
		return home, nil, err
	}
	there, err := s.there(ctx, pool, service)
	if err == nil && !there {
		err = fmt.Errorf("%w: there is no schema %s", ErrNone, s.schema(service))
	}
	if err != nil {
		pool.Close()
		return home, nil, err
	}
	closing = func() error {
		pool.Close()
		return nil
	}
	return table.Postgres(pool, s.schema(service),
		pgstore.New(pool, &pgstore.Options{Schema: s.schema(service)})), closing, nil
}
