package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// maxSingleReads is the number of messages up to which look reads each message by itself. For more messages,
// look reads all kept messages of the consumer.
const maxSingleReads = 50

// resume reads the messages that earlier calls of the run have redriven, and their outcomes. The list is
// exact, because each redrive writes its audit in the same transaction.
func (r *redrive) resume(ctx context.Context) error {
	for a, err := range runAudits(ctx, r.db, r.report.Run, 0) {
		if err != nil {
			return err
		}
		switch _, what, _ := noteOf(&a); what {
		case runBegun, runStopped:
		case runEnded:
			r.sent, r.known = nil, map[runTarget]*redriven{}
			r.report.Begun = time.Time{}
		default:
			if r.add(runTarget{Consumer: a.Consumer, Identity: a.Identity}); len(r.sent) == 1 {
				r.report.Begun = a.At
			}
		}
	}
	if len(r.sent) == 0 {
		return nil
	}
	return r.look(ctx)
}

// awaitCanary waits for the outcome of the canary.
func (r *redrive) awaitCanary(ctx context.Context) error {
	canary := r.sent[0]
	err := r.lookUntil(ctx, func() bool { return canary.outcome != open })
	switch {
	case err != nil:
		return err
	case canary.outcome == open:
		return fmt.Errorf("the canary, %s, was not handled within %v: check that its consumer runs, and that no earlier message blocks its key", canary.ID, r.pace.Wait)
	case canary.outcome == failed:
		r.report.Stopped = fmt.Sprintf("the canary, %s, failed again: %s", canary.ID, canary.why)
	case canary.outcome == rejected:
		r.report.Stopped = fmt.Sprintf("the canary, %s, was rejected: %s", canary.ID, canary.why)
	}
	return nil
}

// settle waits until all messages have an outcome, or too many have failed again.
func (r *redrive) settle(ctx context.Context) error {
	return r.lookUntil(ctx, func() bool { return r.tooMany() || r.count(open) == 0 })
}

// lookUntil calls look until done returns true, for at most Pace.Wait.
func (r *redrive) lookUntil(ctx context.Context, done func() bool) error {
	end := time.Now().Add(r.pace.Wait)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err := r.look(ctx); err != nil || done() || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// look reads the outcomes of the messages that are still open.
func (r *redrive) look(ctx context.Context) error {
	r.looked = time.Now()
	var waiting []*redriven
	for _, s := range r.sent {
		if s.outcome == open {
			waiting = append(waiting, s)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	kept := map[runTarget]*store.Parked{}
	if len(waiting) > maxSingleReads {
		for p, err := range listAny(ctx, r.db, Selection{Consumer: r.s.Consumer}) {
			if err != nil {
				return err
			}
			kept[runTarget{Consumer: p.Consumer, Identity: p.Identity}] = &p
		}
	} else {
		for _, s := range waiting {
			p, err := find(ctx, r.db, s.Consumer, s.Identity)
			if err != nil {
				return err
			}
			kept[s.runTarget] = p
		}
	}
	return r.setOutcomes(ctx, waiting, kept)
}

// setOutcomes sets the outcomes of waiting messages. A message that is not in the map parked is finished,
// so its mark has the outcome.
func (r *redrive) setOutcomes(ctx context.Context, waiting []*redriven,
	parked map[runTarget]*store.Parked) error {
	gone := map[string][]*redriven{} // by consumer
	for _, s := range waiting {
		switch p := parked[s.runTarget]; {
		case p == nil:
			gone[s.Consumer] = append(gone[s.Consumer], s)
		case p.Dead != nil, p.Attempts > 0:
			s.outcome, s.why = failed, firstLine(p.Last.Why)
		}
	}
	for consumer, list := range gone {
		ids := make([]store.Identity, len(list))
		for i, s := range list {
			ids[i] = s.Identity
		}
		seen, err := r.db.Seen(ctx, consumer, ids)
		if err != nil {
			return err
		}
		for i, v := range seen {
			if list[i].outcome = done; v.Outcome == store.Rejected {
				list[i].outcome, list[i].why = rejected, firstLine(v.Reason)
			}
		}
	}
	return nil
}

// note records the end and the outcome of the run in the audit. A later call with the same name then begins a
// new run. run does not call note if the canary was not handled, so a later call can continue that run.
func (r *redrive) note(ctx context.Context) error {
	a := auditOf(r.o, "redrive"+runEnded+r.report.Outcome(), r.s.Consumer, store.Identity{})
	a.Run = r.report.Run
	if _, err := applyEffect(ctx, r.db, store.Effect{Audit: a}); err != nil {
		return fmt.Errorf("end the run %s: %w", r.report.Run, err)
	}
	return nil
}
