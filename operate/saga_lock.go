package operate

import (
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// entities describes the entities of the saga.
func (r *SagaRead) entities(at string) []string {
	waits, passed := false, false
	for i := range r.state.Runs {
		run := &r.state.Runs[i]
		open := run.Phase == plan.Ready || run.Phase == plan.Waiting
		waits, passed = waits || isLock(r.plan, run) && open, passed || isLock(r.plan, run) && !open
	}
	return explainPlaces(r.places, r.holders, waits, passed, at)
}

// explainLock describes a Lock that waits for entities, or that releases them.
func explainLock(st *plan.State, r *plan.Run, places []store.Hold, typed func(verb, data string) string,
	failed string) string {
	name := sagarow.StepName(r.Step, r.Occurrence)
	if st.Status == plan.Compensating {
		return fmt.Sprintf("%s releases its entities.%s%s", name, failed, retryText(st, r))
	}
	if len(places) == 0 {
		return fmt.Sprintf("%s runs next: it has no place in line yet.%s%s", name, failed, lockDue(st, r))
	}
	since := slices.MinFunc(places, func(a, b store.Hold) int { return a.Since.Compare(b.Since) }).Since
	return fmt.Sprintf("%s waits in line for %s, since %s.%s%s To go on without them, although others may change "+
		"them meanwhile: %s", name, entities(places), formatTime(since), failed, lockDue(st, r),
		typed("skip", ""))
}

// lockDue describes the timeout of a Lock, or the time of its next attempt.
func lockDue(st *plan.State, r *plan.Run) string {
	if r.Phase == plan.Ready && !r.Due.IsZero() {
		return retryText(st, r)
	}
	end := *r
	end.Due = plan.LockEnd(r)
	return untilText(st, &end)
}

func isLock(p *plan.Plan, r *plan.Run) bool {
	if p == nil {
		return false
	}
	step, _ := p.Step(r.Step)
	return step.Kind == plan.Lock
}

// dueOf returns the time of the next attempt or of the timeout of a run. A waiting Lock only checks its
// entities at r.Due, so its timeout is returned.
func dueOf(p *plan.Plan, r *plan.Run) time.Time {
	if r.Phase == plan.Waiting && isLock(p, r) {
		return plan.LockEnd(r)
	}
	return r.Due
}
