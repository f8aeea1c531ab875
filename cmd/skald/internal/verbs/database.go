// This file opens the database that a URL names: as stores, or to make Skald's tables there.

package verbs

import (
	"context"
	"strings"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
)

// A Database is one database with Skald's tables, or without them yet. Nothing is opened before it is needed.
type Database interface {
	// Script is the SQL that makes the tables.
	Script() (string, error)
	// Pending are the migrations that are not applied yet. It changes nothing.
	Pending(ctx context.Context) ([]string, error)
	// Migrate applies them.
	Migrate(ctx context.Context) ([]string, error)
	// Stores are what relays need, one for each schema, over one pool. Where the database or the only schema
	// is missing the error wraps exit.ErrNone.
	Stores(ctx context.Context, r Rooms) (s []relay.Source, done func(), err error)
}

// Rooms are the schemas of one database that one process serves, with how many connections at most.
type Rooms struct {
	Schemas     []string // none: the default
	Connections int
	Keep        store.Retention
	Listen      string // where to be told of writes; "": nowhere
	WAL         bool   // hear of commits from a slot
	Slot        string // "": the default
	ReadBy      string // the slot from which somebody else reads the outbox; "": nobody does
	Publication string // that it is read by
	TrustSlot   bool   // it has every row
}

// Open knows a database by its URL; schema "" is the default.
func Open(at, schema, source string) (Database, error) {
	path, isFile := strings.CutPrefix(at, "sqlite:")
	switch {
	case isFile && path != "" && schema != "":
		return nil, &cli.UsageError{What: "--schema is for PostgreSQL: SQLite has none"}
	case isFile && path != "":
		return file{path, source}, nil
	case strings.HasPrefix(at, "postgres://"), strings.HasPrefix(at, "postgresql://"):
		return newServer(at, schema, source)
	case at == "":
		return nil, &cli.UsageError{What: "which database? Give --store, or SKALD_STORE"}
	}
	return nil, &cli.UsageError{What: "the store is sqlite:FILE or postgres://…"}
}
