package sagatest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// lines has the queue of each entity, which contains the ids of sagas. The first saga in a queue holds the
// entity.
type lines map[store.Lock][]string

// hold adds a saga to queues. It returns first=true if the saga is the first in all of these queues.
func (ls lines) hold(id string, es []store.Lock) (first bool) {
	first = true
	for _, e := range es {
		if !slices.Contains(ls[e], id) {
			ls[e] = append(ls[e], id)
		}
		first = first && ls[e][0] == id
	}
	return first
}

func (ls lines) free(id string) {
	for e, line := range ls {
		ls[e] = slices.DeleteFunc(line, func(other string) bool { return other == id })
	}
}

// errInLine means that a rival waits for entities of the first saga.
var errInLine = errors.New("sagatest: it waits in line")

// lookAgain is the interval at which a waiting Lock checks whether it is first.
const lookAgain = 10 * time.Second

// lock adds the saga to the queues of its entities, or removes it from all queues.
func (r *sagaRun[TTx]) lock(a plan.Action, step *engine.StepBody) error {
	e := plan.Event{What: plan.Succeeded, Step: a.Step, Occurrence: a.Occurrence}
	if a.Verb != plan.RunStep {
		if e.What = plan.UndoDone; a.Verb == plan.SettleStep {
			e.What = plan.Rejected
		}
		r.feed(e)
		r.leave()
		return nil
	}
	mode, gone := r.point("run lock of "+name(a.Step, a.Occurrence), r.runOf(a),
		r.mayReject(Fails, Dies, FailsPermanently, CancelsDuring)...)
	if gone {
		return nil
	}
	es, err := r.entities(a, step)
	switch {
	case err != nil:
		return r.feedError(a, err)
	case mode == "" && !r.lines.hold(r.state.ID, es):
		node, _ := r.d.Plan.Step(a.Step)
		if e.What, e.Until = plan.Sent, r.now.Add(lookAgain); r.runOf(a).Memo == nil {
			e.Memo = plan.LockTimeout(node.Try, r.now)
		}
	}
	r.fault(a, mode, e)
	return nil
}

// entities returns the entities of a Lock. It records a failure if two calls return different entities.
func (r *sagaRun[TTx]) entities(a plan.Action, step *engine.StepBody) (es []store.Lock, err error) {
	f := r.facts(a)
	err = safely(func() (err error) {
		es, err = step.Lock(f)
		return err
	})
	if err != nil {
		return nil, err
	}
	es = slices.Clone(es)
	for i := range es {
		es[i].Version = 0
	}
	slices.SortFunc(es, func(a, b store.Lock) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Key, b.Key))
	})
	es = slices.Compact(es)
	if named := fmt.Sprint(es); r.named == "" || r.mixed {
		r.named = named
	} else if r.named != named {
		r.broken = append(r.broken, fmt.Sprintf("the step %s named the entities %.200s, and in another call "+
			"%.200s: %s", a.Step, r.named, named, chance))
		r.named = named
	}
	return es, nil
}

// leave removes the saga from all queues, and lets a rival continue that waited for it.
func (r *sagaRun[TTx]) leave() {
	r.lines.free(r.state.ID)
	if r.other == nil || r.rivalDone != nil {
		return
	}
	if _, waits := r.other.waitingLock(); waits {
		if n := len(r.log); n > 0 && r.log[n-1].note == "" && !r.state.Status.Final() {
			r.addNote("the rival continues")
		}
		r.continueRival(never)
	}
}

// waitingLock returns the run of the Lock in which the saga waits for entities.
func (r *sagaRun[TTx]) waitingLock() (lock plan.Run, is bool) {
	for _, lock := range r.state.Runs {
		if step, _ := r.d.Plan.Step(lock.Step); step.Kind == plan.Lock && lock.Phase == plan.Waiting {
			return lock, true
		}
	}
	return lock, false
}

// inLine continues a saga that only waits for entities of another saga.
func (r *sagaRun[TTx]) inLine(run plan.Run) error {
	switch {
	case r.other == nil:
		return errInLine
	case r.rivalDone != nil:
		return fmt.Errorf("it waits in line at %s forever", run.Step)
	}
	node, _ := r.d.Plan.Step(run.Step)
	var modes []Mode
	if node.Try.Timeout > 0 {
		modes = append(modes, Late)
	}
	at := len(r.log)
	mode, gone := r.point("wait in line at "+name(run.Step, run.Occurrence), run, modes...)
	r.log[at].inLine = true
	switch {
	case gone:
	case mode == Late:
		r.addNote("it gets its entities only after its Timeout")
		r.moveClock(r.now.Add(node.Try.Timeout))
	default:
		r.continueRival(never)
		r.checkLock()
	}
	return nil
}

// checkLock makes a waiting Lock check whether the saga is first in the queues.
func (r *sagaRun[TTx]) checkLock() {
	if _, waits := r.waitingLock(); waits {
		r.feed(plan.Event{What: plan.Turn})
		r.feed(plan.Event{What: plan.Tick}) // a Lock that is due needs a Tick instead
	}
}

// hasEntities reports whether the saga has its entities.
func (r *sagaRun[TTx]) hasEntities() bool {
	for _, run := range r.state.Runs {
		if step, _ := r.d.Plan.Step(run.Step); step.Kind == plan.Lock && run.Phase == plan.IsDone {
			return true
		}
	}
	return false
}
