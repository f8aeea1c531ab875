package engine

import (
	"context"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// taking applies replies to one saga. The first call of take reads the saga's state.
type taking struct {
	book    *book
	clock   *storeClock
	d       *Definition
	s       store.Saga
	st      plan.State        // the state that was read
	sent    map[string]target // commands that replies may answer
	names   plan.Mapping      // renamed steps, from the saga's definition to d
	p       *plan.Plan
	course  *plan.Course // state after the replies so far; nil before the first one
	now     time.Time
	moved   bool
	before  []plan.Run
	changes []change
}

func (t *taking) take(ctx context.Context, r *reply) (err error) {
	if t.sent == nil {
		if t.st, err = sagarow.StateOf(t.s, 0); err != nil {
			return err
		}
		if t.p, err = t.book.Plan(ctx, t.s.Name, t.s.Hash); err != nil {
			return err
		}
		t.names = mapping(t.d, t.s.Hash)
		t.sent = t.commands()
	}
	st := t.st
	if t.course != nil {
		st = t.course.State()
	}
	to, ok, err := t.findTarget(r, st)
	if err != nil || !ok {
		return err
	}
	ev, err := to.event(ctx, r.Message)
	if err != nil {
		return err
	}
	if err := CheckSize("the output of the step "+ev.Step, ev.Output, t.d.MaxBytes); err != nil &&
		ev.What == plan.Succeeded {
		ev = withoutOutput(ev, err)
	}
	if t.course == nil {
		t.now = t.clock.Now()
		t.course = t.p.Course(sagarow.Dated(t.s, t.st, t.p.Graph.Deadline), t.now)
	}
	was := t.course.State()
	t.before = append(t.before[:0], was.Runs...)
	was.Runs = t.before
	if r.Out = t.course.Take(ev); r.Out == plan.TooLarge { // the step took effect
		r.Out = t.course.Take(withoutOutput(ev, t.course.Large()))
	}
	if r.Out.Changed() {
		t.moved = true
		t.changes = changed(t.changes, was, t.course.State())
	}
	return nil
}
