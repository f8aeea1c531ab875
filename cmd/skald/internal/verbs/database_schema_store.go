package verbs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// schemaStore is a store in one schema. Its Check also reports that the schema does not exist.
type schemaStore struct {
	*pgstore.Store
	pool   *pgxpool.Pool
	schema string
}

// schemaWAL is a schemaStore that reads commits from a replication slot.
type schemaWAL struct {
	*pgstore.WAL
	in schemaStore
}

// Check also checks that the schema exists.
func (h schemaWAL) Check(ctx context.Context, as store.Role) error { return h.in.Check(ctx, as) }

// schemaReadBy is a schemaStore with an outbox that Debezium reads.
type schemaReadBy struct {
	*pgstore.ReadBy
	in schemaStore
}

// Check also checks that the schema exists.
func (h schemaReadBy) Check(ctx context.Context, as store.Role) error { return h.in.Check(ctx, as) }

// Check also checks that the schema exists.
func (h schemaStore) Check(ctx context.Context, as store.Role) error {
	if err := h.there(ctx); err != nil {
		return err
	}
	return h.Store.Check(ctx, as)
}

func (h schemaStore) there(ctx context.Context) error {
	var there bool
	err := h.pool.QueryRow(ctx,
		"SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text)", h.schema).Scan(&there)
	if err == nil && !there {
		err = fmt.Errorf("%w: there is no schema %s: run: skald migrate --store … --schema %s", cli.ErrNone,
			h.schema, h.schema)
	}
	return err
}
