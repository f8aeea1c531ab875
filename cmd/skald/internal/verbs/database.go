// This file opens the database of a URL, to use its stores or to create the tables.

package verbs

import (
	"context"
	"strings"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
)

// Database is a database with or without Skald's tables. It opens no connection before it needs one.
type Database interface {
	// Script returns the SQL that creates the tables.
	Script() (string, error)
	// Pending returns the migrations that are not applied yet. It changes nothing.
	Pending(ctx context.Context) ([]string, error)
	// Migrate applies the pending migrations.
	Migrate(ctx context.Context) ([]string, error)
	// Stores returns the sources of relays, one for each schema, over one pool. If the database or the only
	// schema does not exist, the error wraps cli.ErrNone.
	Stores(ctx context.Context, r Rooms) (s []relay.Source, done func(), err error)
}

// Rooms selects the schemas of a database for one process, and its connections.
type Rooms struct {
	Schemas     []string // empty means the default
	Connections int
	Keep        store.Retention
	Listen      string // the connection for notifications of writes; empty means none
	WAL         bool   // read commits from a replication slot
	Slot        string // empty means the default
	ReadBy      string // the slot of another reader of the outbox; empty means none
	Publication string // of that reader
	TrustSlot   bool   // that slot has every row
}

// Open returns the database of a URL. An empty schema means the default.
func Open(at, schema, source string) (Database, error) {
	path, isFile := strings.CutPrefix(at, "sqlite:")
	switch {
	case isFile && path != "" && schema != "":
		return nil, &cli.UsageError{What: "--schema is for PostgreSQL: SQLite has no schemas"}
	case isFile && path != "":
		return file{path, source}, nil
	case strings.HasPrefix(at, "postgres://"), strings.HasPrefix(at, "postgresql://"):
		return newServer(at, schema, source)
	case at == "":
		return nil, &cli.UsageError{What: "which database? Give --store, or set SKALD_STORE"}
	}
	return nil, &cli.UsageError{What: "the store is sqlite:FILE or postgres://…"}
}
