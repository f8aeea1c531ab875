package pgstore

import (
	"context"

	"github.com/skald-go/skald/store"
)

var _ store.PayloadSchemas = (*core)(nil)

// PayloadSchema reads a schema that was kept.
func (c *core) PayloadSchema(ctx context.Context, registry, id string) (definition string, err error) {
	read := c.call("PayloadSchema", registry, id)
	read.scan = func(row scanner) error { return row.Scan(&definition) }
	if err := c.short(ctx, "read the schema of a payload", read); err != nil {
		return "", err
	}
	return definition, nil
}

// KeepPayloadSchema keeps a schema, unless one is kept under this id.
func (c *core) KeepPayloadSchema(ctx context.Context, registry, id, definition string) error {
	return c.short(ctx, "keep the schema of a payload", c.call("KeepPayloadSchema", registry, id, definition))
}
