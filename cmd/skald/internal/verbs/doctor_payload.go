package verbs

import (
	"context"
	"errors"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/store"
)

// readLock reads the schemas that a program declares, if --lock was given.
func (d *doctor) readLock() (err error) {
	if d.lock != "" {
		d.declared, err = readLock(d.lock)
	}
	return err
}

// inspectBy makes doctor decode payloads with the schemas of the database and of --lock.
func (d *doctor) inspectBy(db any) {
	by := &schema.Inspector{Lock: d.declared, Formats: formats()}
	if kept, ok := db.(store.PayloadSchemas); ok {
		by.Kept = allowedSchemas{kept}
	}
	d.Inspect = func(ctx context.Context, m skald.Message) (operate.Payload, error) {
		saw, err := by.Inspect(ctx, m)
		return operate.Payload{Schema: saw.ID, DecodeError: saw.Wrong}, err
	}
}

// allowedSchemas returns no schemas if the user may not read the table of schemas, such as the user of a
// relay.
type allowedSchemas struct{ store.PayloadSchemas }

func (a allowedSchemas) PayloadSchema(ctx context.Context, registry, id string) (string, error) {
	text, err := a.PayloadSchemas.PayloadSchema(ctx, registry, id)
	if right := new(store.RightError); errors.As(err, &right) {
		return "", nil
	}
	return text, err
}
