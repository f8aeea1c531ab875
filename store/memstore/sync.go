package memstore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// SyncConsumer stores the heartbeat and the checkpoints of a consumer's process, and returns those of the
// consumer. If the caller requires a certain server, which memory does not have, SyncConsumer stores no
// checkpoint.
func (s *Store) SyncConsumer(ctx context.Context, a store.SyncRequest) (out store.SyncResult, err error) {
	err = s.enter(ctx, func() error {
		d, now := s.db, s.db.now()
		if a.Heartbeat != nil {
			out.Kinds = d.consumers.Beat(a.Consumer, a.Heartbeat, now)
		}
		if !a.Take {
			d.consumers.Advance(&a, now)
		}
		out.Checkpoints = d.consumers.Checkpoints(a.Consumer)
		if a.Take {
			for _, session := range d.consumers.Take(&a, now) {
				d.kept.Unclaim(a.Consumer, session, now)
			}
		}
		return nil
	})
	return out, err
}
