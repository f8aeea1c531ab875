package sagatest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/internal/saga/plan"
)

// judge asks the promises.
func (r *sagaRun[TTx]) judge(before string) error {
	after, err := r.view()
	if err != nil {
		return err
	}
	end := End{Done: r.state.Status == plan.Done, Key: r.key, state: &r.state}
	if r.state.Cause != nil {
		end.Why, end.Step = string(r.state.Cause.Why), r.state.Cause.Step
	}
	if err := r.compare(end, before, after); err != nil {
		return err
	}
	return r.in(false, func(ctx context.Context, tx TTx) error {
		for _, p := range r.c.promises {
			if err := p(ctx, tx, end); err != nil {
				r.broken = append(r.broken, "a promise is broken: "+err.Error())
			}
		}
		return nil
	})
}

// compare holds what the saga left against what is usual.
func (r *sagaRun[TTx]) compare(end End, before, after string) error {
	values := r.faults.values()
	usual, known := r.c.usual[values.String()]
	switch right := len(r.faults) == len(values); {
	case right && !known && !end.Done && len(values) == 0:
		return fmt.Errorf("nothing goes wrong, and it turns back at %q: %s: %s%s", end.Step, end.Why,
			r.state.Cause.Reason, r.zeros())
	case right && !known:
		usual = outcome{end.Done, after}
		r.c.usual[values.String()] = usual
	case right && usual != outcome{end.Done, after}:
		return fmt.Errorf("twice nothing goes wrong, and it left first\n%sand then\n%s%s", indent(usual.view),
			indent(after), chance)
	}
	switch {
	case r.beside != nil:
		if views := r.c.serial[[2]bool{end.Done, *r.beside}]; !slices.Contains(views, after) {
			r.broken = append(r.broken,
				fmt.Sprintf("it ran beside a rival (it is done: %v; the rival is done: %v), and they left\n%swhere one after the other "+
					"they leave\n%s", end.Done, *r.beside, indent(after),
					indent(strings.Join(views, "or\n"))))
		}
	case end.Done && r.mixed: // what it should leave, promises tell
	case end.Done && !usual.done:
		r.broken = append(r.broken, "it is done, where it turns back if nothing goes wrong")
	case end.Done && after != usual.view:
		r.broken = append(r.broken, "it is done, and left\n"+indent(after)+
			"where it leaves, if nothing goes wrong,\n"+indent(usual.view))
	case !end.Done && after != before:
		r.broken = append(r.broken, "it is compensated, and left\n"+indent(after)+
			"where there was before it\n"+indent(before))
	}
	return nil
}

const chance = "a function depends on a clock, on chance, on the order of a map, or on something outside of its " +
	"transaction that no reset of an Outside puts back"

// zeros names what was played with a zero value.
func (r *sagaRun[TTx]) zeros() string {
	var out strings.Builder
	for of := range r.met {
		if r.c.first[of] == nil {
			fmt.Fprintf(&out, "\n%v brought the zero value of its type: say with Signal or Reply what it brings", of)
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
