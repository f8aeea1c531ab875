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

// maxConns limits the connections of an instance, unless the URL has pool_max_conns.
const maxConns = 6

// connectTimeout limits a connect, unless the URL has connect_timeout.
const connectTimeout = 10 * time.Second

// Postgres returns the databases in one PostgreSQL database, one schema for each service: prefix, an
// underscore, the service. It does not connect yet.
func Postgres(at, prefix string) (*Databases[pgx.Tx], error) {
	cfg, err := pgxpool.ParseConfig(at)
	if err != nil {
		// pgx omits the password from its error.
		return nil, &UsageError{What: err.Error() + ": the store must be postgres://user@host:port/database"}
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	if !strings.Contains(at, "pool_max_conns=") {
		cfg.MaxConns = maxConns
	}
	if !strings.Contains(at, "default_query_exec_mode=") {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // also works with PgBouncer
	}
	return Schemas(cfg, prefix, `"$SKALD_STORE"`), nil // the URL may contain a password
}

// Schemas is Postgres with connections of cfg. store is the server in a command, as a word of a shell.
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
		// another user with more rights may have created it
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
