// This file stores the progress of shards.

package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// save stores the progress of the shards that is due, in one call. It makes no call if nothing has changed.
// The cursor and the deferred rows of a shard are stored together. So each row is before the cursor, or is
// deferred, or will be read again. At nextTime the next progress is due.
func (r *Relay) save(ctx context.Context, force bool) (nextTime time.Time, err error) {
	now := r.o.Now()
	var of []*shard
	for _, s := range r.shards {
		if !s.unsaved() {
			continue
		}
		at := s.savedAt.Add(r.o.Save)
		if !force && !s.leaving && len(s.deferred)+len(s.freed) == 0 && now.Before(at) {
			if nextTime.IsZero() || at.Before(nextTime) {
				nextTime = at
			}
			continue
		}
		of = append(of, s)
	}
	if len(of) == 0 {
		return nextTime, nil
	}
	// The order is fixed, so that a simulated run can be repeated.
	slices.SortFunc(of, func(a, b *shard) int { return a.ID - b.ID })
	es := make([]store.Effect, len(of))
	for i, s := range of {
		es[i] = store.Effect{Shard: s.progress()}
	}
	applied, err := r.db.Apply(ctx, es...)
	if err != nil {
		return nextTime, fmt.Errorf("save progress: %w", err)
	}
	return nextTime, r.saved(ctx, of, es, applied, now)
}

func (s *shard) unsaved() bool {
	return s.saved != s.Cursor || s.originChanged || len(s.deferred)+len(s.freed) > 0
}

func (s *shard) progress() *store.Progress {
	cursor := s.Cursor
	p := &store.Progress{Shard: s.ID, Epoch: s.Epoch, Token: s.Token, Cursor: &cursor, Deferred: s.deferred,
		Freed: s.freed}
	if s.originChanged {
		name := s.origin.String()
		p.Incarnation = &name
	}
	return p
}

// saved updates the shards after their progress was stored. It drops shards that the relay has lost.
func (r *Relay) saved(ctx context.Context, of []*shard, es []store.Effect, applied []bool,
	now time.Time) error {
	var freed []*shard
	for i, s := range of {
		if !applied[i] {
			r.o.Logger.Warn("relay: shard lost", "owner", r.o.Owner, "shard", s.ID, "epoch", s.Epoch)
			r.drop(s)
			r.leaseAt = now
			continue
		}
		if len(s.freed) > 0 {
			freed = append(freed, s)
		}
		s.saved, s.savedAt, s.originChanged = *es[i].Shard.Cursor, now, false
		s.deferred, s.freed = nil, nil
	}
	if len(freed) == 0 {
		return nil
	}
	return r.reload(ctx, freed)
}
