package query

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Status reads the state of all shards with one statement.
func (o *Outbox) Status(ctx context.Context) (out store.OutboxStatus, err error) {
	out.Exact = true
	shards := o.pg.Call("OutboxShards")
	shards.Scan = func(row sqlexec.Scanner) error {
		var l store.OutboxShard
		var exact bool
		var oldest, deferred int64 // oldest is in milliseconds
		err := row.Scan(&l.Shard, &l.Owner, &l.Epoch, &l.Pending, &exact, &oldest, &deferred)
		out.Shards = append(out.Shards, l)
		out.Pending, out.Deferred = out.Pending+l.Pending, out.Deferred+deferred
		out.Exact = out.Exact && exact
		out.Oldest = max(out.Oldest, sqlexec.Past(oldest))
		return err
	}
	if err = o.pg.Short(ctx, "read outbox status", shards); err != nil {
		return store.OutboxStatus{}, err
	}
	return out, nil
}
