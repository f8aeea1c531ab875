package operate

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/store"
)

// change returns the effect that changes one message. changeOne adds the audit, unless the effect has one.
type change func(ctx context.Context, p *store.Parked) (store.Effect, error)

// changeAll applies a change to each selected message, in order. Each change has its own transaction with
// its audit.
func changeAll(ctx context.Context, db MessageStore, verb string, s *Selection, o *Order,
	apply change) (r Report, err error) {
	if err := s.check(o); err != nil {
		return r, err
	}
	all, err := selected(ctx, db, s)
	if err == nil {
		err = confirm(ctx, o, len(all))
	}
	if err != nil {
		return r, err
	}
	r.Selected = len(all)
	for i := range all {
		applied := o.DryRun
		if !applied {
			if applied, err = changeOne(ctx, db, verb, o.Run, &all[i], o, apply); err != nil {
				return r, fmt.Errorf("%s %s, after %d others: %w", verb, all[i].ID, r.Done, err)
			}
		}
		if applied {
			r.Done++
		}
		progress(o, i+1, len(all))
	}
	return r, partly(&r, verb)
}

// changeOne applies a change to one message. It returns false if the message is finished, or if another
// process changed the message first.
func changeOne(ctx context.Context, db MessageStore, verb, run string, p *store.Parked, o *Order,
	apply change) (bool, error) {
	e, err := apply(ctx, p)
	if err != nil {
		return false, err
	}
	if e.Audit == nil {
		e.Audit = auditOf(o, verb, p.Consumer, p.Identity)
	}
	e.Audit.Run = run
	return applyEffect(ctx, db, e)
}

// requeue makes a message due now, and sets its attempts to zero.
func requeue(_ context.Context, p *store.Parked) (store.Effect, error) {
	r := store.Requeue{Consumer: p.Consumer, Identity: p.Identity}
	if p.Dead != nil {
		r.DeadAt = p.Dead.At
	} else {
		r.Attempts = &p.Attempts
	}
	return store.Effect{Requeue: &r}, nil
}

// givenUpMark returns the mark that makes a consumer drop repeats of a dead letter. It returns nil for a
// rejection by a handler, because the handler's transaction wrote a mark.
func givenUpMark(ctx context.Context, db MessageStore, p *store.Parked, why string) (*store.Mark, error) {
	if p.Dead != nil && p.Dead.Kind == failure.KindRejected {
		seen, err := db.Seen(ctx, p.Consumer, []store.Identity{p.Identity})
		if err != nil || seen[0].Outcome != store.Fresh {
			return nil, err
		}
	}
	return &store.Mark{Consumer: p.Consumer, Identity: p.Identity, Outcome: store.Rejected, Reason: why,
		Held: true}, nil
}
