package pgstore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

var _ store.PayloadSchemas = (*core)(nil)

// PayloadSchema returns the stored definition of a schema; "" if there is none.
func (c *core) PayloadSchema(ctx context.Context, registry, id string) (definition string, err error) {
	read := c.pg.Call("PayloadSchema", registry, id)
	read.Scan = func(row sqlexec.Scanner) error { return row.Scan(&definition) }
	if err := c.pg.Short(ctx, "read the schema of a payload", read); err != nil {
		return "", err
	}
	return definition, nil
}

// KeepPayloadSchema stores the definition of a schema, unless the registry already has one for id.
func (c *core) KeepPayloadSchema(ctx context.Context, registry, id, definition string) error {
	return c.pg.Short(ctx, "store the schema of a payload",
		c.pg.Call("KeepPayloadSchema", registry, id, definition))
}
