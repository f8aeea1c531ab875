package sagas

import (
	"context"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/saga/stored"
	"github.com/skald-go/skald/operate/internal/order"
	"github.com/skald-go/skald/store"
)

// trySagas is the dry run of a change: one read for each hundred sagas, and one of their definitions.
func trySagas(ctx context.Context, db store.Lister, s *SagaSelection, c *SagaChange,
	o *order.Order) (r SagaReport, err error) {
	plans, err := ReadPlans(ctx, db)
	if err != nil {
		return r, err
	}
	only := one{of: s, run: o.Run}
	err = eachSaga(ctx, db, s, false, func(one store.Saga) error {
		if err := only.also(&one); err != nil {
			return err
		}
		r.Selected++
		p, deadline := plans[one.Hash], time.Duration(0)
		if p != nil {
			deadline = p.Graph.Deadline
		}
		st, err := stored.StateOf(one, deadline)
		if err != nil {
			return err
		}
		if _, _, why := c.try(&one, st, p, o); why != "" {
			r.Left = append(r.Left, LeftSaga{one.Name, one.Key, why})
		} else {
			r.Done++
		}
		return nil
	})
	switch {
	case err != nil:
		return SagaReport{}, err
	case r.Selected == 0:
		return r, &order.NoneError{What: "no saga is selected"}
	}
	return r, c.partly(&r)
}

// try is what becomes of a saga by c, or why it is left as it is. P is nil where no engine has noted its
// definition.
func (c *SagaChange) try(s *store.Saga, st plan.State, p *plan.Plan,
	o *order.Order) (next plan.State, now time.Time, why string) {
	if p == nil {
		return next, now, unknownDefinition(s).Error()
	}
	now = s.Read // by the store's clock: this machine's may be another one
	next, _, out := p.Advance(st, c.event(o), now)
	switch {
	case out == plan.TooLarge:
		return next, now, p.Large(st, c.event(o), now).Error()
	case out.Changed():
		return next, now, c.unfit(p, &st)
	case st.Status.Final() && out != plan.Repeat:
		return next, now, "it has ended: " + s.Status
	}
	return next, now, outcomeText(out)
}
