package verbs

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/pgstore"
)

const (
	leastConnections   = 2 // deleting old rows occupies one connection, and the leases need another
	defaultConnections = 4
)

// Server is a schema in a PostgreSQL database.
type Server struct {
	Config         *pgxpool.Config
	schema, source string
	bounded        bool // the URL has pool_max_conns
}

func newServer(at, schema, source string) (Database, error) {
	cfg, err := connect.PoolConfig(at)
	if err != nil {
		return nil, err
	}
	if schema == "" {
		schema = "public"
	}
	if err := pgstore.CheckSchema(schema); err != nil {
		return nil, err
	}
	return Server{cfg, schema, source, strings.Contains(at, "pool_max_conns=")}, nil
}

func (s Server) options() *pgstore.MigrateOptions {
	return &pgstore.MigrateOptions{Schema: s.schema, Source: s.source}
}

func (s Server) Script() (string, error) {
	text, err := pgstore.Script(s.options())
	return "BEGIN;\n" + text + "COMMIT;\n", err
}

// Steps returns the migrations, each as its own script.
func (s Server) Steps() ([]pgstore.Step, error) { return pgstore.Steps(s.options()) }

func (s Server) Pending(ctx context.Context) ([]string, error) { return s.with(ctx, pgstore.Pending) }
func (s Server) Migrate(ctx context.Context) ([]string, error) { return s.with(ctx, pgstore.Migrate) }

type migration func(context.Context, pgstore.Database, *pgstore.MigrateOptions) ([]pgstore.Migration, error)

func (s Server) with(ctx context.Context, do migration) (names []string, err error) {
	pool, err := pgxpool.NewWithConfig(ctx, s.Config)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	list, err := do(ctx, pool, s.options())
	for _, one := range list {
		names = append(names, one.Name)
	}
	return names, err
}

// Resize changes the number of slots of the outbox.
func (s Server) Resize(ctx context.Context, rows int) ([]string, error) {
	pool, err := pgxpool.NewWithConfig(ctx, s.Config)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return pgstore.Resize(ctx, pool, &pgstore.ResizeOptions{Schema: s.schema, Outbox: rows})
}

// Console returns a source for the console. It also succeeds if the server does not answer, and the pages
// then show the error.
func (s Server) Console(ctx context.Context, typed string) (out console.Source, end func(), err error) {
	cfg := s.Config.Copy()
	if !s.bounded {
		cfg.MaxConns = defaultConnections
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return out, nil, err
	}
	how := "--store " + connect.Typed(typed, typed)
	if s.schema != "public" {
		how += " --schema " + shortlog.Shell(s.schema)
	}
	return console.NewSource(pgstore.New(pool,
		&pgstore.Options{Schema: s.schema})).WithFlags(how), pool.Close, nil
}

func (s Server) Stores(ctx context.Context, r Rooms) (all []relay.Source, done func(), err error) {
	cfg := s.Config.Copy()
	switch {
	case r.Connections != 0 && r.Connections < leastConnections:
		return nil, nil,
			&cli.UsageError{What: fmt.Sprintf(
				"--connections is %d or more: a lease needs its own connection", leastConnections)}
	case r.Connections != 0:
		cfg.MaxConns = int32(r.Connections)
	case !s.bounded:
		cfg.MaxConns = defaultConnections
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	if len(r.Schemas) == 0 {
		r.Schemas = []string{s.schema}
	}
	for _, schema := range r.Schemas {
		one, err := s.relayed(pool, schema, r)
		if err != nil {
			pool.Close()
			return nil, nil, err
		}
		all = append(all, one)
	}
	if len(all) > 1 { // the relay checks each schema itself
		return all, pool.Close, nil
	}
	if err := (schemaStore{nil, pool, r.Schemas[0]}).there(ctx); err != nil {
		pool.Close()
		return nil, nil, err
	}
	return all, pool.Close, nil
}

// relayed returns the source for a relay of a schema.
func (s Server) relayed(pool *pgxpool.Pool, schema string, r Rooms) (relay.Source, error) {
	if err := pgstore.CheckSchema(schema); err != nil {
		return nil, err
	}
	one := schemaStore{pgstore.New(pool, &pgstore.Options{Schema: schema}), pool, schema}
	if r.ReadBy != "" {
		by, err := one.ReadBy(&pgstore.ReadByOptions{Slot: r.ReadBy, Publication: r.Publication,
			Trust: r.TrustSlot})
		if err != nil {
			return nil, &cli.UsageError{What: err.Error()}
		}
		return schemaReadBy{by, one}, nil
	}
	if !r.WAL {
		return one, nil
	}
	w, err := one.WAL(r.Listen, &pgstore.WALOptions{Slot: r.Slot, BeforeConnect: connect.AskPassword})
	if err != nil {
		return nil, &cli.UsageError{What: err.Error()}
	}
	return schemaWAL{w, one}, nil
}
