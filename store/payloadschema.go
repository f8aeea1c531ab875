package store

import "context"

// PayloadSchemas stores the schemas of payloads by the registry's ID, so that parked messages and dead
// letters stay readable if the registry is gone. Every Driver of Skald implements PayloadSchemas. Nothing
// deletes schemas: they are few and small.
type PayloadSchemas interface {
	// PayloadSchema returns the stored definition of this ID of this registry; "" if there is none.
	PayloadSchema(ctx context.Context, registry, id string) (definition string, err error)

	// KeepPayloadSchema stores a definition in a transaction of its own. It does not replace a stored
	// definition, because an ID identifies one schema forever.
	KeepPayloadSchema(ctx context.Context, registry, id, definition string) error
}
