package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/cmd/skald/internal/given"
	"github.com/skald-go/skald/cmd/skald/internal/say"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// A database is one database with Skald's tables, or without them yet. Nothing is opened before it is needed.
type database interface {
	// script is the SQL that makes the tables.
	script() (string, error)
	// pending are the migrations that are not applied yet. It changes nothing.
	pending(ctx context.Context) ([]string, error)
	// migrate applies them.
	migrate(ctx context.Context) ([]string, error)
	// stores are what relays need, one for each schema, over one pool. Where the database or the only schema
	// is missing the error wraps exit.ErrNone.
	stores(ctx context.Context, r rooms) (s []relay.Source, done func(), err error)
}

// rooms are the schemas of one database that one process serves, with how many connections at most.
type rooms struct {
	schemas     []string // none: the default
	connections int
	keep        store.Retention
	listen      string // where to be told of writes; "": nowhere
	wal         bool   // hear of commits from a slot
	slot        string // "": the default
	readBy      string // the slot from which somebody else reads the outbox; "": nobody does
	publication string // that it is read by
	trustSlot   bool   // it has every row
}

const (
	leastConnections   = 2 // emptying a slot takes one for a while; the lease must not wait for it
	defaultConnections = 4
)

// openDatabase knows a database by its URL; schema "" is the default.
func openDatabase(at, schema, source string) (database, error) {
	path, isFile := strings.CutPrefix(at, "sqlite:")
	switch {
	case isFile && path != "" && schema != "":
		return nil, &exit.UsageError{What: "--schema is for PostgreSQL: SQLite has none"}
	case isFile && path != "":
		return file{path, source}, nil
	case strings.HasPrefix(at, "postgres://"), strings.HasPrefix(at, "postgresql://"):
		return newServer(at, schema, source)
	case at == "":
		return nil, &exit.UsageError{What: "which database? Give --store, or SKALD_STORE"}
	}
	return nil, &exit.UsageError{What: "the store is sqlite:FILE or postgres://…"}
}

// file is an SQLite file.
type file struct{ path, source string }

func (f file) script() (string, error) { return sqlitestore.Script(f.path, f.source) }

func (f file) pending(ctx context.Context) (names []string, err error) {
	if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
		files, err := fs.Glob(sqlitestore.Migrations(), "*.sql")
		return files, err
	}
	db, err := sqlitestore.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	todo, err := sqlitestore.Pending(ctx, db)
	if err == nil && len(todo) == 0 { // there is nothing to do: what is left is to compare the source
		_, err = sqlitestore.Migrate(ctx, db, &sqlitestore.MigrateOptions{Source: f.source})
	}
	for _, one := range todo {
		names = append(names, one.Name)
	}
	return names, err
}

func (f file) migrate(ctx context.Context) (names []string, err error) {
	if folder := filepath.Dir(f.path); !isFolder(folder) {
		return nil, &exit.NoneError{What: "there is no folder " + folder + ": make it, or give another --store"}
	}
	db, err := sqlitestore.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	did, err := sqlitestore.Migrate(ctx, db, &sqlitestore.MigrateOptions{Source: f.source})
	for _, one := range did {
		names = append(names, one.Name)
	}
	return names, err
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (f file) stores(_ context.Context, r rooms) ([]relay.Source, func(), error) {
	if len(r.schemas) > 0 || r.connections != 0 || r.wal || r.readBy != "" {
		return nil, nil, &exit.UsageError{What: "--schema, --connections, --wal and --read-by are for PostgreSQL: SQLite has none"}
	}
	if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: there is no file %s: run: skald migrate --store sqlite:%s", exit.ErrNone, f.path, f.path)
	}
	db, err := sqlitestore.Open(f.path)
	if err != nil {
		return nil, nil, err
	}
	return []relay.Source{sqlitestore.New(db, nil)}, func() { _ = db.Close() }, nil
}

// server is a schema in a PostgreSQL database.
type server struct {
	cfg            *pgxpool.Config
	schema, source string
	bounded        bool // by the URL, which has pool_max_conns
}

func newServer(at, schema, source string) (database, error) {
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
	return server{cfg, schema, source, strings.Contains(at, "pool_max_conns=")}, nil
}

func (s server) options() *pgstore.MigrateOptions {
	return &pgstore.MigrateOptions{Schema: s.schema, Source: s.source}
}

func (s server) script() (string, error) {
	text, err := pgstore.Script(s.options())
	return "BEGIN;\n" + text + "COMMIT;\n", err
}

func (s server) steps() ([]pgstore.Step, error) { return pgstore.Steps(s.options()) }

func (s server) pending(ctx context.Context) ([]string, error) { return s.with(ctx, pgstore.Pending) }
func (s server) migrate(ctx context.Context) ([]string, error) { return s.with(ctx, pgstore.Migrate) }

type migration func(context.Context, pgstore.Database, *pgstore.MigrateOptions) ([]pgstore.Migration, error)

func (s server) with(ctx context.Context, do migration) (names []string, err error) {
	pool, err := pgxpool.NewWithConfig(ctx, s.cfg)
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

// resize changes the ring of the outbox to so many slots.
func (s server) resize(ctx context.Context, rows int) ([]string, error) {
	pool, err := pgxpool.NewWithConfig(ctx, s.cfg)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return pgstore.Resize(ctx, pool, &pgstore.ResizeOptions{Schema: s.schema, Outbox: rows})
}

// console is for pages: they say what a server that is away cannot tell.
func (s server) console(ctx context.Context, typed string) (out console.Source, end func(), err error) {
	cfg := s.cfg.Copy()
	if !s.bounded {
		cfg.MaxConns = defaultConnections
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return out, nil, err
	}
	how := "--store " + given.Typed(typed, typed)
	if s.schema != "public" {
		how += " --schema " + say.Quoted(s.schema)
	}
	return console.Of(pgstore.New(pool, &pgstore.Options{Schema: s.schema})).At(how), pool.Close, nil
}

func (s server) stores(ctx context.Context, r rooms) (all []relay.Source, done func(), err error) {
	cfg := s.cfg.Copy()
	switch {
	case r.connections != 0 && r.connections < leastConnections:
		return nil, nil, &exit.UsageError{What: fmt.Sprintf("--connections is %d or more: one alone would keep a lease waiting", leastConnections)}
	case r.connections != 0:
		cfg.MaxConns = int32(r.connections)
	case !s.bounded:
		cfg.MaxConns = defaultConnections
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	if len(r.schemas) == 0 {
		r.schemas = []string{s.schema}
	}
	for _, schema := range r.schemas {
		one, err := s.relayed(pool, schema, r)
		if err != nil {
			pool.Close()
			return nil, nil, err
		}
		all = append(all, one)
	}
	if len(all) > 1 { // each is looked at by itself
		return all, pool.Close, nil
	}
	if err := (schemaStore{nil, pool, r.schemas[0]}).there(ctx); err != nil {
		pool.Close()
		return nil, nil, err
	}
	return all, pool.Close, nil
}

// relayed is what a relay of a schema reads.
func (s server) relayed(pool *pgxpool.Pool, schema string, r rooms) (relay.Source, error) {
	if err := pgstore.CheckSchema(schema); err != nil {
		return nil, err
	}
	one := schemaStore{pgstore.New(pool, &pgstore.Options{Schema: schema}), pool, schema}
	if r.readBy != "" {
		by, err := one.ReadBy(&pgstore.ReadByOptions{Slot: r.readBy, Publication: r.publication, Trust: r.trustSlot})
		if err != nil {
			return nil, &exit.UsageError{What: err.Error()}
		}
		return schemaReadBy{by, one}, nil
	}
	if !r.wal {
		return one, nil
	}
	w, err := one.WAL(r.listen, &pgstore.WALOptions{Slot: r.slot, BeforeConnect: connect.AskPassword})
	if err != nil {
		return nil, &exit.UsageError{What: err.Error()}
	}
	return schemaWAL{w, one}, nil
}
