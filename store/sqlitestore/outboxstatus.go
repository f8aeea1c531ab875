package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// outboxStatus reads the views of the contract.
func (s *Store) outboxStatus(ctx context.Context) (out store.OutboxStatus, err error) {
	p, err := s.prepare(ctx)
	if err != nil {
		return out, failed("read outbox status", err)
	}
	var oldest int64 // milliseconds
	if err := p.stmts["OutboxStatus"].QueryRowContext(ctx).Scan(&out.Pending, &out.Exact, &oldest,
		&out.Deferred); err != nil {
		return out, failed("read outbox status", err)
	}
	out.Oldest = past(oldest)
	rows, err := p.stmts["OutboxShards"].QueryContext(ctx)
	if err != nil {
		return out, failed("read outbox status", err)
	}
	out.Shards, err = collect(rows, func(scan func(...any) error) (l store.OutboxShard, err error) {
		return l, scan(&l.Shard, &l.Owner, &l.Epoch, &l.Pending)
	})
	return out, failedOr("read outbox status", err)
}
