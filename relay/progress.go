package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// save stores how far the lanes have come: all that is due in one call, none when nothing has changed.
// Progress and what is set aside are one effect, so that a row is always either behind the cursor, or set aside,
// or will be read again.
func (r *Relay) save(ctx context.Context, force bool) (next time.Time, err error) {
	now := r.o.Now()
	var of []*lane
	for _, l := range r.lanes {
		if !l.unsaved() {
			continue
		}
		at := l.savedAt.Add(r.o.Save)
		if !force && !l.leaving && len(l.aside)+len(l.freed) == 0 && now.Before(at) {
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
	slices.SortFunc(of, func(a, b *lane) int { return a.ID - b.ID }) // so that what an explorer saw can be replayed
	es := make([]store.Effect, len(of))
	for i, l := range of {
		es[i] = store.Effect{Lane: l.progress()}
	}
	stands, err := r.db.Apply(ctx, es...)
	if err != nil {
		return next, fmt.Errorf("save progress: %w", err)
	}
	return next, r.saved(ctx, of, es, stands, now)
}

func (l *lane) unsaved() bool {
	return l.saved != l.Cursor || l.renamed || len(l.aside)+len(l.freed) > 0
}

func (l *lane) progress() *store.Progress {
	cursor := l.Cursor
	p := &store.Progress{Lane: l.ID, Epoch: l.Epoch, Token: l.Token, Cursor: &cursor, Aside: l.aside, Freed: l.freed}
	if l.renamed {
		name := l.note.String()
		p.Incarnation = &name
	}
	return p
}

func (r *Relay) saved(ctx context.Context, of []*lane, es []store.Effect, stands []bool, now time.Time) error {
	var freed []*lane
	for i, l := range of {
		if !stands[i] {
			r.o.Logger.Warn("relay: lane lost", "owner", r.o.Owner, "lane", l.ID, "epoch", l.Epoch)
			r.drop(l)
			r.leaseAt = now
			continue
		}
		if len(l.freed) > 0 {
			freed = append(freed, l)
		}
		l.saved, l.savedAt, l.renamed = *es[i].Lane.Cursor, now, false
		l.aside, l.freed = nil, nil
	}
	if len(freed) == 0 {
		return nil
	}
	return r.reload(ctx, freed)
}
