package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// save stores how far the shards have come: all that is due in one call, none when nothing has changed.
// Progress and what is deferred are one effect, so that a row is always either behind the cursor, or
// deferred, or will be read again.
func (r *Relay) save(ctx context.Context, force bool) (next time.Time, err error) {
	now := r.o.Now()
	var of []*shard
	for _, l := range r.shards {
		if !l.unsaved() {
			continue
		}
		at := l.savedAt.Add(r.o.Save)
		if !force && !l.leaving && len(l.deferred)+len(l.freed) == 0 && now.Before(at) {
			if next.IsZero() || at.Before(next) {
				next = at
			}
			continue
		}
		of = append(of, l)
	}
	if len(of) == 0 {
		return next, nil
	}
	// so that what an explorer saw can be replayed
	slices.SortFunc(of, func(a, b *shard) int { return a.ID - b.ID })
	es := make([]store.Effect, len(of))
	for i, l := range of {
		es[i] = store.Effect{Shard: l.progress()}
	}
	stands, err := r.db.Apply(ctx, es...)
	if err != nil {
		return next, fmt.Errorf("save progress: %w", err)
	}
	return next, r.saved(ctx, of, es, stands, now)
}

func (l *shard) unsaved() bool {
	return l.saved != l.Cursor || l.renamed || len(l.deferred)+len(l.freed) > 0
}

func (l *shard) progress() *store.Progress {
	cursor := l.Cursor
	p := &store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token, Cursor: &cursor, Deferred: l.deferred,
		Freed: l.freed}
	if l.renamed {
		name := l.note.String()
		p.Incarnation = &name
	}
	return p
}

func (r *Relay) saved(ctx context.Context, of []*shard, es []store.Effect, stands []bool,
	now time.Time) error {
	var freed []*shard
	for i, l := range of {
		if !stands[i] {
			r.o.Logger.Warn("relay: shard lost", "owner", r.o.Owner, "shard", l.ID, "epoch", l.Epoch)
			r.drop(l)
			r.leaseAt = now
			continue
		}
		if len(l.freed) > 0 {
			freed = append(freed, l)
		}
		l.saved, l.savedAt, l.renamed = *es[i].Shard.Cursor, now, false
		l.deferred, l.freed = nil, nil
	}
	if len(freed) == 0 {
		return nil
	}
	return r.reload(ctx, freed)
}
