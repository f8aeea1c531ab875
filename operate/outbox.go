package operate

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald/store"
)

// DropDeferred deletes the deferred row of the outbox with this message ID, which the broker refused. No
// subscriber receives it, unless a relay is publishing it at this moment. Rows of its key go on. It
// returns a *NoMatchError if the broker refused no row with this ID. A dry run does not check that.
// DropDeferred needs the rights of a relay, and INSERT on skald_audit.
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
	stood, err := applyEffect(ctx, db, store.Effect{DropDeferred: &store.DropDeferred{ID: id},
		Audit: auditOf(&o, "outbox drop", "", store.Identity{ID: id})})
	if err == nil && !stood {
		err = &NoMatchError{Reason: "the outbox has no deferred row with the id " + id}
	}
	if err != nil {
		return fmt.Errorf("outbox drop: %w", err)
	}
	return nil
}

// Unpublished returns rows of the outbox with this ID or one of these keys that no subscriber can have
// received. They wait for a relay, or the broker refused them. It reads at most `most` rows of each kind,
// the oldest first. It needs the rights of a relay or a reader.
func Unpublished(ctx context.Context, db store.Lister, id string, keys [][]byte,
	most int) ([]store.WaitingRow, error) {
	rows, err := store.ListWaiting(ctx, db, most)
	return slices.DeleteFunc(rows, func(r store.WaitingRow) bool {
		return r.ID != id && (r.Key == nil ||
			!slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(key, r.Key) }))
	}), err
}
