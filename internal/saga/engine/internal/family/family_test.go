package family

import (
	"testing"

	"github.com/skald-go/skald/internal/saga/body"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/saga/stored"
	"github.com/skald-go/skald/store"
)

func TestUpTellsAParentHowItsChildEnded(t *testing.T) {
	parent := &stored.Parent{Name: "order", Key: "1", ID: "o", Step: "ship"}
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
	} {
		was := plan.State{Runs: []plan.Run{{Step: "pay"}, {Step: "ship", Phase: c.phase}}}
		e, err := Up(was, parent, child, c.as)
		if err != nil || e.What != c.want || e.Step != "ship" || e.Reason != c.says {
			t.Errorf("%s: %+v, %v", c.name, e, err)
		}
	}
}

func TestOwnRefusesAnothersChild(t *testing.T) {
	c := Child{Def: &body.Definition{Name: "shipping"}, Key: "s1",
		Parent: stored.Parent{Name: "order", Key: "1", ID: "o", Step: "ship"}}
	other := c.Parent
	other.ID = "p"
	if err := c.Own(store.Saga{Origin: stored.Origin{Parent: &c.Parent}.Encode()}); err != nil {
		t.Errorf("its own child is refused: %v", err)
	}
	for _, o := range []stored.Origin{{}, {Parent: &other}} {
		if err := c.Own(store.Saga{Origin: o.Encode()}); err == nil {
			t.Errorf("the child of %+v is taken", o.Parent)
		}
	}
}
