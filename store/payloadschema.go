package store

import "context"

// PayloadSchemas keeps the schemas that payloads were written with, by the id that came with the payload, so
// that parked messages and dead letters stay readable when the registry is gone. Every Driver of Skald has
// it. Nothing deletes them: they are few and small.
type PayloadSchemas interface {
	// PayloadSchema is the definition that is kept under this id of this registry; "" if there is none.
	PayloadSchema(ctx context.Context, registry, id string) (definition string, err error)

	// KeepPayloadSchema keeps a definition, in a transaction of its own. One that is kept already stays as it
	// is: an id means one schema for ever.
	KeepPayloadSchema(ctx context.Context, registry, id, definition string) error
}
