package memstore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// outboxStatus tells how the outbox stands.
func (s *Store) outboxStatus(ctx context.Context) (out store.OutboxStatus, err error) {
	err = s.enter(ctx, func() error {
		d := s.db
		b, now := d.backlog(), d.now()
		out = store.OutboxStatus{Pending: b.Pending, Exact: true, Oldest: b.Oldest, Deferred: b.Deferred}
		for _, l := range d.shards {
			one := store.OutboxShard{Shard: l.ID, Epoch: l.Epoch}
			if sessionID, ok := d.sessions[l.owner]; ok && sessionID.id == l.sessionID &&
				sessionID.until.After(now) {
				one.Owner = l.owner
			}
			for _, r := range d.rows {
				if _, deferred := d.aside[r.Seq]; !deferred && d.shardOf(r.Bucket) == l.ID &&
					!d.passed(l, r) {
					one.Pending++
				}
			}
			out.Shards = append(out.Shards, one)
		}
		return nil
	})
	return out, err
}
