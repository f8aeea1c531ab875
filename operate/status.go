package operate

import (
	"context"
	"errors"

	"github.com/skald-go/skald/store"
)

// A Watcher is what Status asks of a store.
type Watcher interface {
	store.Teller
	Check(ctx context.Context, as store.Role) error
}

// Status tells what waits to be published, and which relays have it. It needs no more than the rights of a
// reader. Tables that are not there, or are of another version, are a *store.SchemaError.
func Status(ctx context.Context, db Watcher) (store.OutboxStatus, error) {
	all, err := db.Status(ctx, store.StatusQuery{Outbox: true})
	s := all.Outbox
	if err == nil {
		return s, nil
	}
	if schema := new(store.SchemaError); errors.As(db.Check(ctx, store.App), &schema) {
		err = schema
	}
	return s, err
}
