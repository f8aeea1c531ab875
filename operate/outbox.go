package operate

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald/store"
)

// DropDeferred gives up the row of the outbox with this message id, which the broker refused and which was
// deferred: no subscriber gets it, unless a relay is trying it at this moment. Rows of its key go on. A
// *NoneError: the broker refused no row of this id. A dry run does not look whether there is one. It needs
// the rights of a relay, and INSERT on skald_audit.
func DropDeferred(ctx context.Context, db Applier, id string, o Order) error {
	if id == "" {
		return &UsageError{What: "which message? Give its id"}
	}
	if err := checkOrder(&o); err != nil {
		return err
	}
	if err := confirm(ctx, &o, 1); err != nil || o.DryRun {
		return err
	}
	stood, err := applyEffect(ctx, db, store.Effect{DropDeferred: &store.DropDeferred{ID: id},
		Audit: auditOf(&o, "outbox drop", "", store.Identity{ID: id})})
	if err == nil && !stood {
		err = &NoneError{What: "no row of the outbox that the broker refused has the id " + id}
	}
	if err != nil {
		return fmt.Errorf("outbox drop: %w", err)
	}
	return nil
}

// Unpublished are rows of the outbox that no subscriber can have got, since they wait for a relay or the
// broker refused them, and that have this id or one of these keys. It looks at the oldest of both kinds, at
// most so many of each. It needs the rights of a relay or a reader.
func Unpublished(ctx context.Context, db store.Lister, id string, keys [][]byte,
	most int) ([]store.WaitingRow, error) {
	rows, err := store.ListWaiting(ctx, db, most)
	return slices.DeleteFunc(rows, func(r store.WaitingRow) bool {
		return r.ID != id && (r.Key == nil ||
			!slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(key, r.Key) }))
	}), err
}
