package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// Status reads the state of the outbox from the public views.
func (o *outboxTable) Status(ctx context.Context) (out store.OutboxStatus, err error) {
	p, err := o.run.Prepare(ctx)
	if err != nil {
		return out, sqlexec.Failed("read outbox status", err)
	}
	var oldest int64 // in milliseconds
	if err := p.Row(ctx, "OutboxStatus").Scan(&out.Pending, &out.Exact, &oldest,
		&out.Deferred); err != nil {
		return out, sqlexec.Failed("read outbox status", err)
	}
	out.Oldest = sqlexec.Past(oldest)
	rows, err := p.Rows(ctx, "OutboxShards")
	if err != nil {
		return out, sqlexec.Failed("read outbox status", err)
	}
	out.Shards, err = sqlexec.Collect(rows, func(scan func(...any) error) (l store.OutboxShard, err error) {
		return l, scan(&l.Shard, &l.Owner, &l.Epoch, &l.Pending)
	})
	return out, sqlexec.Failed("read outbox status", err)
}
