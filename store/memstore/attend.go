package memstore

import (
	"context"

	"github.com/skald-go/skald/store"
)

// Attend implements store.Claimer. A database in memory has no server session, so if the caller requires one,
// no checkpoint is stored.
func (s *Store) Attend(ctx context.Context, a store.Attend) (out store.Attended, err error) {
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
