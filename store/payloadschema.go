package store

import "context"

// PayloadSchemas stores the schemas of payloads by the ID that a schema registry gave them. So parked
// messages and dead letters stay readable without the registry. Every Driver of Skald implements
// PayloadSchemas. Nothing deletes schemas, because they are few and small.
type PayloadSchemas interface {
	// PayloadSchema returns the stored definition for an ID of a registry; "" if the store has none.
	PayloadSchema(ctx context.Context, registry, id string) (definition string, err error)

	// KeepPayloadSchema stores a definition in its own transaction. It does not replace a stored definition,
	// because an ID identifies one schema forever.
	KeepPayloadSchema(ctx context.Context, registry, id, definition string) error
}
