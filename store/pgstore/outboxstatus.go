package pgstore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// outboxStatus reads the views of the contract: one round trip.
func (c *core) outboxStatus(ctx context.Context) (out store.OutboxStatus, err error) {
	var oldest int64 // milliseconds
	shards := c.call("OutboxShards")
	shards.scan = func(row scanner) error {
		var l store.OutboxShard
		err := row.Scan(&l.Shard, &l.Owner, &l.Epoch, &l.Pending)
		out.Shards = append(out.Shards, l)
		return err
	}
	err = c.short(ctx, "read outbox status", c.call("OutboxStatus").into(&out.Pending, &out.Exact, &oldest, &out.Deferred), shards)
	if err != nil {
		return store.OutboxStatus{}, err
	}
	out.Oldest = past(oldest)
	return out, nil
}
