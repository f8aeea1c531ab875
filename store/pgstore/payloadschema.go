package pgstore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

var _ store.PayloadSchemas = (*core)(nil)

// PayloadSchema returns a stored schema.
func (c *core) PayloadSchema(ctx context.Context, registry, id string) (definition string, err error) {
	read := c.pg.Call("PayloadSchema", registry, id)
	read.Scan = func(row sqlexec.Scanner) error { return row.Scan(&definition) }
	if err := c.pg.Short(ctx, "read the schema of a payload", read); err != nil {
		return "", err
	}
	return definition, nil
}

// KeepPayloadSchema stores a schema, unless the ID has one already.
func (c *core) KeepPayloadSchema(ctx context.Context, registry, id, definition string) error {
	return c.pg.Short(ctx, "store the schema of a payload",
		c.pg.Call("KeepPayloadSchema", registry, id, definition))
}
