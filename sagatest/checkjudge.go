package sagatest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/internal/saga/plan"
)

// judge checks the result of the run: the views and the promises. The argument before is the view before
// the saga.
func (r *sagaRun[TTx]) judge(before string) error {
	after, err := r.view()
	if err != nil {
		return err
	}
	end := End{Done: r.state.Status == plan.Done, Key: r.key, state: &r.state, emitted: r.emitted}
	if r.state.Cause != nil {
		end.Why, end.Step = string(r.state.Cause.Why), r.state.Cause.Step
	}
	if err := r.compare(end, before, after); err != nil {
		return err
	}
	return r.inTx(false, func(ctx context.Context, tx TTx) error {
		for _, p := range r.c.promises {
			if err := p(ctx, tx, end); err != nil {
				r.broken = append(r.broken, "a promise is broken: "+err.Error())
			}
		}
		for _, e := range r.c.emits {
			if text := e.broken(end); text != "" {
				r.broken = append(r.broken, "a promise is broken: "+text)
			}
		}
		return nil
	})
}

// compare compares the views of this run with those of a run without a fault.
func (r *sagaRun[TTx]) compare(end End, before, after string) error {
	values := r.faults.values()
	usual, known := r.c.usual[values.String()]
	switch right := len(r.faults) == len(values); {
	case right && !known && !end.Done && len(values) == 0:
		return fmt.Errorf("without a fault, it turns back at %q: %s: %s%s", end.Step, end.Why,
			r.state.Cause.Reason, r.zeros())
	case right && !known:
		usual = outcome{end.Done, after}
		r.c.usual[values.String()] = usual
	case right && usual != outcome{end.Done, after}:
		return fmt.Errorf("two runs without a fault differ: the first left\n%sand the second\n%s%s", indent(usual.view),
			indent(after), chance)
	}
	if p, is := r.passing(); is && usual.done && !end.Done {
		r.noteTurnedBack(p)
	}
	switch {
	case r.rivalDone != nil:
		if views := r.c.serial[[2]bool{end.Done, *r.rivalDone}]; !slices.Contains(views, after) {
			r.broken = append(r.broken,
				fmt.Sprintf("it ran with a rival (it is done: %v; the rival is done: %v), and they left\n%sbut one after the other "+
					"they leave\n%s", end.Done, *r.rivalDone, indent(after),
					indent(strings.Join(views, "or\n"))))
		}
	case end.Done && r.mixed: // only promises can check the result of two definitions
	case end.Done && !usual.done:
		r.broken = append(r.broken, "it is done, but without a fault it turns back")
	case end.Done && after != usual.view:
		r.broken = append(r.broken, "it is done, and left\n"+indent(after)+
			"but without a fault it leaves\n"+indent(usual.view))
	case !end.Done && after != before:
		r.broken = append(r.broken, "it is compensated, and left\n"+indent(after)+
			"but before it there was\n"+indent(before))
	}
	return nil
}

// passing returns the point of the only fault of the run, if the saga must end in the same way as without
// this fault.
func (r *sagaRun[TTx]) passing() (p point, is bool) {
	faults := slices.DeleteFunc(slices.Clone(r.faults), func(f Fault) bool { return f.Mode == Value })
	if len(faults) != 1 || faults[0].At > len(r.log) {
		return p, false
	}
	p = r.log[faults[0].At-1]
	node, _ := r.d.Plan.Step(p.step)
	switch p.mode {
	case Dies, Twice:
		return p, true
	case Fails:
		return p, p.left
	case Lost:
		return p, p.left && node.Kind != plan.Child
	case Late:
		return p, p.left && node.Kind == plan.Command
	}
	return p, false
}

// noteTurnedBack records a failure: the saga turned back because of a transient failure. It ignores a step
// that is parallel to the failed step, because this step may reject if the failed step has not done its work.
// It also ignores deadlines, which belong to no step.
func (r *sagaRun[TTx]) noteTurnedBack(p point) {
	cause, who := r.state.Cause, "when repeated, the step "
	if cause.Step != p.step || cause.Occurrence != p.occurrence {
		if who = "after that the step "; !r.d.Plan.Before(p.step, cause.Step) {
			return
		}
	}
	r.broken = append(r.broken, fmt.Sprintf("one transient failure (%s, at %q) turns the saga back, which "+
		"ends well without it: %s%s says %q. A step must have the same result each time it runs", p.mode,
		p.what, who, name(cause.Step, cause.Occurrence), cause.Reason))
}

// noteStuck records a failure: one transient failure made the saga stuck.
func (r *sagaRun[TTx]) noteStuck(a plan.Action, mode Mode) {
	if mode != Fails && mode != Lost || !r.runOf(a).Stuck || r.attempts(a.Step) != 1 {
		return
	}
	what, policy := "the step ", "its Retry allows one attempt, and the pivot is passed"
	if a.Verb != plan.RunStep {
		what, policy = string(a.Verb)+" of ", "its RetryUndo allows one attempt"
	}
	r.broken = append(r.broken, fmt.Sprintf("one transient failure (%s) leaves the saga stuck until an "+
		"operator decides: %s%s fails, and %s. Allow more attempts; for an error that needs an operator, return skald.Permanent", mode,
		what, name(a.Step, a.Occurrence), policy))
}

const chance = "a function depends on a clock, on random numbers, on the order of a map, or on state outside of its " +
	"transaction that no reset of an Outside restores"

// zeros returns a text about the signals and replies for which this run used a zero value.
func (r *sagaRun[TTx]) zeros() string {
	var out strings.Builder
	for of := range r.met {
		if r.c.first[of] == nil {
			fmt.Fprintf(&out, "\n%v had the zero value of its type: set its values with Signal or Reply", of)
		}
	}
	return out.String()
}

func indent(s string) string {
	if s == "" {
		return "    nothing\n"
	}
	return "    " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n    ") + "\n"
}
