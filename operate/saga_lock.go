package operate

import (
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// entities says what is told of the entities of a saga.
func (r *SagaRead) entities(at string) []string {
	waits, passed := false, false
	for i := range r.state.Runs {
		run := &r.state.Runs[i]
		open := run.Phase == plan.Ready || run.Phase == plan.Waiting
		waits, passed = waits || isLock(r.plan, run) && open, passed || isLock(r.plan, run) && !open
	}
	return explainHold(r.places, r.holders, waits, passed, at)
}

// explainLock says how a Lock stands that is not done: it waits for entities, or gives them up.
func explainLock(st *plan.State, r *plan.Run, places []store.Hold, typed func(verb, data string) string,
	failed string) string {
	name := sagarow.StepName(r.Step, r.Occurrence)
	if st.Status == plan.Compensating {
		return fmt.Sprintf("%s gives up its entities.%s%s", name, failed, again(st, r))
	}
	if len(places) == 0 {
		return fmt.Sprintf("%s is to be run: it has no place in line yet.%s%s", name, failed, lockDue(st, r))
	}
	since := slices.MinFunc(places, func(a, b store.Hold) int { return a.Since.Compare(b.Since) }).Since
	return fmt.Sprintf("%s waits in line for %s, since %s.%s%s To go on without them, though others may change "+
		"them meanwhile: %s", name, entities(places), timeText(since), failed, lockDue(st, r),
		typed("skip", ""))
}

// lockDue says when the time of a Lock is up, or when it is tried again.
func lockDue(st *plan.State, r *plan.Run) string {
	if r.Phase == plan.Ready && !r.Due.IsZero() {
		return again(st, r)
	}
	end := *r
	end.Due = plan.LockEnd(r)
	return until(st, &end)
}

func isLock(p *plan.Plan, r *plan.Run) bool {
	if p == nil {
		return false
	}
	step, _ := p.Step(r.Step)
	return step.Kind == plan.Lock
}

// dueOf is when something comes of a run by itself. A Lock that waits looks again often: nothing comes of
// that.
func dueOf(p *plan.Plan, r *plan.Run) time.Time {
	if r.Phase == plan.Waiting && isLock(p, r) {
		return plan.LockEnd(r)
	}
	return r.Due
}
