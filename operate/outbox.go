package operate

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald/store"
)

// DropDeferred deletes the deferred row of the outbox with this message ID: a row that the broker refused. No
// subscriber receives the message, unless a relay publishes it at this moment. The relay then publishes the
// later rows of the key. DropDeferred returns a *NoMatchError if there is no such row, but not in a dry run.
// It needs the rights of a relay, and INSERT on skald_audit.
func DropDeferred(ctx context.Context, db Applier, id string, o Order) error {
	if id == "" {
		return &UsageError{Reason: "which message? Give its id"}
	}
	if err := checkOrder(&o); err != nil {
		return err
	}
	if err := confirm(ctx, &o, 1); err != nil || o.DryRun {
		return err
	}
	applied, err := applyEffect(ctx, db, store.Effect{DropDeferred: &store.DropDeferred{ID: id},
		Audit: auditOf(&o, "outbox drop", "", store.Identity{ID: id})})
	if err == nil && !applied {
		err = &NoMatchError{Reason: "the outbox has no deferred row with the id " + id}
	}
	if err != nil {
		return fmt.Errorf("outbox drop: %w", err)
	}
	return nil
}

// Unpublished returns the unpublished rows of the outbox that have this ID or one of these keys. These rows
// wait for a relay, or the broker refused them. Unpublished reads at most limit waiting rows and limit
// refused rows, oldest first. It needs the rights of a relay or a reader.
func Unpublished(ctx context.Context, db store.Lister, id string, keys [][]byte,
	limit int) ([]store.WaitingRow, error) {
	rows, err := store.ListWaiting(ctx, db, limit)
	return slices.DeleteFunc(rows, func(r store.WaitingRow) bool {
		return r.ID != id && (r.Key == nil ||
			!slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(key, r.Key) }))
	}), err
}
