package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

func TestUpReportsTheEndOfAChild(t *testing.T) {
	parent := &sagarow.Ancestor{Name: "order", Key: "1", ID: "o", Step: "ship"}
	child := store.Saga{Name: "shipping", Key: "s1", ID: "c"}
	back := plan.State{Status: plan.Compensated,
		Cause: &plan.Cause{Why: plan.WhyRejected, Step: "pack", Reason: "no box"}}
	for _, c := range []struct {
		name  string
		phase plan.Phase
		as    plan.State
		want  plan.What
		says  string
	}{
		{"done", plan.Waiting, plan.State{Status: plan.Done}, plan.Succeeded, ""},
		{"turned back by itself", plan.Waiting, back, plan.Rejected, reason(back)},
		{"turned back when it was told to", plan.Undoing, back, plan.UndoDone, ""},
		{"done before it is told to turn back", plan.Undo, plan.State{Status: plan.Done}, plan.Succeeded, ""},
		{"done though it was told to turn back", plan.Undoing, plan.State{Status: plan.Done}, plan.UndoFailed,
			pastPivot("shipping", "s1").Error()},
	} {
		was := plan.State{Runs: []plan.Run{{Step: "pay"}, {Step: "ship", Phase: c.phase}}}
		e, err := endEvent(was, parent, child, c.as)
		if err != nil || e.What != c.want || e.Step != "ship" || e.Reason != c.says {
			t.Errorf("%s: %+v, %v", c.name, e, err)
		}
	}
}

func TestMeetsRefusesTheChildOfAnotherStep(t *testing.T) {
	c := child{Def: &Definition{Name: "shipping"}, Key: "s1",
		Parent: sagarow.Ancestor{Name: "order", Key: "1", ID: "o", Step: "ship", Occurrence: "tea"}}
	other, sister := c.Parent, c.Parent
	other.ID, sister.Occurrence = "p", "cup"
	of := func(p *sagarow.Ancestor) store.Saga {
		return store.Saga{Origin: sagarow.Origin{Parent: p}.Encode()}
	}
	if err := c.CheckState(of(&c.Parent), true, plan.State{}); err != nil {
		t.Errorf("its own child is refused: %v", err)
	}
	for want, s := range map[string]store.Saga{"was not started by this step": of(&other),
		" was not started by this step": of(nil), `another occurrence of this step, "cup"`: of(&sister)} {
		var e *familyError
		if err := c.CheckState(s, true, plan.State{}); !errors.As(err, &e) || !e.Event.Permanent ||
			e.Event.What != plan.Failed || !strings.Contains(e.Event.Reason, want) {
			t.Errorf("the child %s is met with %+v, want %s", s.Origin, e, want)
		}
	}
}
