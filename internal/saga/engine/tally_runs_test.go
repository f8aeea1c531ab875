package engine

import (
	"testing"

	"github.com/skald-go/skald/internal/saga/plan"
)

func state(runs ...plan.Run) plan.State { return plan.State{Runs: runs} }

func TestChangedFindsMovedRunsByName(t *testing.T) {
	pay := plan.Run{Step: "pay", Phase: plan.Ready}
	paid, tried := pay, pay
	paid.Phase, tried.Attempts = plan.IsDone, 1
	ship := plan.Run{Step: "ship", Phase: plan.Ready}

	if got := changed(nil, state(pay), state(pay)); len(got) != 0 {
		t.Errorf("nothing has changed, and found: %+v", got)
	}
	if got := changed(nil, state(pay), state(tried)); len(got) != 1 || got[0].Is.Attempts != 1 {
		t.Errorf("an attempt failed, and found: %+v", got)
	}
	got := changed(nil, state(pay, ship), state(ship, paid))
	if len(got) != 1 || got[0].Was.Phase != plan.Ready || got[0].Is.Phase != plan.IsDone {
		t.Errorf("pay was done, and has moved: found %+v", got)
	}
	if got := changed(nil, state(), state(ship)); len(got) != 1 || got[0].Was.Phase != "" {
		t.Errorf("ship is new, and found: %+v", got)
	}
}
