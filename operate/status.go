package operate

import (
	"context"
	"errors"

	"github.com/skald-go/skald/store"
)

// StatusStore is the part of a store that Status needs.
type StatusStore interface {
	store.StatusReader
	Check(ctx context.Context, as store.Role) error
}

// Status returns the backlog of the outbox, and the relays that publish it. It needs the rights of a
// reader. It returns a *store.SchemaError if the tables are absent or have another version.
func Status(ctx context.Context, db StatusStore) (store.OutboxStatus, error) {
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
