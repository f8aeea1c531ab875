package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

func TestOwnRefusesTwoLostCommitsWithoutARival(t *testing.T) {
	a := plan.Action{Verb: plan.RunStep, Step: "pay"}
	lost := fmt.Errorf("commit: %w", lost(store.ErrLost, a, 7))
	if !errors.Is(lost, errMoved) {
		t.Errorf("%v is not errMoved", lost)
	}
	var n alone
	if no := n.Own(lost, 7); no != nil {
		t.Errorf("refused the first time: %v", no)
	}
	if no := n.Own(lost, 8); no != nil {
		t.Errorf("refused although another process wrote the saga: %v", no)
	}
	if no := n.Own(lost, 7); no != nil {
		t.Errorf("refused although another process caused the first failure: %v", no)
	}
	no := n.Own(lost, 7)
	if no == nil || no.Action.Step != "pay" || no.Event().What != plan.Failed {
		t.Errorf("not refused after two failures without another writer: %+v", no)
	}
}

func TestAFunctionThatEndedItsTransactionIsStuck(t *testing.T) {
	pay := plan.Action{Verb: plan.RunStep, Step: "pay"}
	e := (&refusal{Action: pay, Err: fmt.Errorf("it: %w", store.ErrLent)}).Event()
	if !e.Stick || !e.Permanent {
		t.Errorf("it is retried: %+v", e)
	}
}
