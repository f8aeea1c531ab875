// This file opens the database at a URL, to use its stores or to create the tables.

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
	// Script returns the SQL that creates all tables.
	Script() (string, error)
	// Pending returns the migrations that are not applied yet. It changes nothing.
	Pending(ctx context.Context) ([]string, error)
	// Migrate applies the pending migrations.
	Migrate(ctx context.Context) ([]string, error)
	// Stores returns one source for each schema; all share one pool. The error wraps cli.ErrNone if the
	// database or the only schema does not exist.
	Stores(ctx context.Context, r Rooms) (s []relay.Source, done func(), err error)
}

// Rooms has the settings of Stores: the schemas, the connections, and how relays read the outbox.
type Rooms struct {
	Schemas     []string // empty means the default
	Connections int
	Keep        store.Retention
	Listen      string // the URL of the connection for notifications of writes; empty means none
	WAL         bool   // read commits from a replication slot
	Slot        string // the name of that replication slot; empty means the default
	ReadBy      string // the replication slot from which Debezium reads the outbox; empty means none
	Publication string // the publication that Debezium reads
	TrustSlot   bool   // assume that the slot of ReadBy has every row
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
