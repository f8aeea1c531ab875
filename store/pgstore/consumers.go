package pgstore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// SyncConsumer writes the state of a consumer's process and reads that of the consumer: one round trip.
func (c *core) SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error) {
	return c.consumers.SyncConsumer(ctx, a)
}

// Rename moves the rows of a consumer to another name.
func (c *core) Rename(ctx context.Context, r store.Rename) (store.Renamed, error) {
	return c.consumers.Rename(c.patience.Long(ctx), r)
}

// Claim claims due parked messages or sagas: one round trip. It writes nothing if no work is due.
func (c *core) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	if w.Sagas != nil {
		return c.sagas.Claim(ctx, w)
	}
	var read store.SyncResult
	var look []sqlexec.Call
	if w.Sync {
		look = c.consumers.Read(w.Consumer, &read)
	}
	out, err := c.kept.Claim(ctx, w, look...)
	if err == nil {
		out.Sync = read
	}
	return out, err
}

// Seen returns whether the consumer finished each message, in one statement.
func (c *core) Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error) {
	return c.marks.Seen(ctx, consumer, ids)
}

// Reserve reserves an idempotency key for one caller: one round trip.
func (c *core) Reserve(ctx context.Context, r store.Reservation) (store.Reserved, error) {
	return c.marks.Reserve(ctx, r)
}

// Database returns the identity of this database.
func (c *core) Database(ctx context.Context) (store.Database, error) {
	return c.consumers.Database(ctx)
}
