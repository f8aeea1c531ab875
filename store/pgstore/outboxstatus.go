package pgstore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// outboxStatus reads how each shard stands: one statement.
func (c *core) outboxStatus(ctx context.Context) (out store.OutboxStatus, err error) {
	out.Exact = true
	shards := c.call("OutboxShards")
	shards.scan = func(row scanner) error {
		var l store.OutboxShard
		var exact bool
		var oldest, deferred int64 // the first in milliseconds
		err := row.Scan(&l.Shard, &l.Owner, &l.Epoch, &l.Pending, &exact, &oldest, &deferred)
		out.Shards = append(out.Shards, l)
		out.Pending, out.Deferred = out.Pending+l.Pending, out.Deferred+deferred
		out.Exact = out.Exact && exact
		out.Oldest = max(out.Oldest, past(oldest))
		return err
	}
	if err = c.short(ctx, "read outbox status", shards); err != nil {
		return store.OutboxStatus{}, err
	}
	return out, nil
}
