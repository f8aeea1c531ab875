package engine

import (
	"testing"

	"github.com/skald-go/skald/internal/saga/plan"
)

func TestAFunctionHangsUntilItReturns(t *testing.T) {
	var all functions
	pay := &hangingFunction{Key: hangsOf("id", plan.Action{Verb: plan.RunStep, Step: "pay"})}
	given := 0
	if !all.Hangs(pay, func() { given++ }) || given != 1 || !all.Has(pay.Key) {
		t.Errorf("it does not hang, and was given up %d times", given)
	}
	if all.Has(hangsOf("id", plan.Action{Verb: plan.UndoStep, Step: "pay"})) {
		t.Error("its undo hangs, too")
	}
	if all.Returned(pay); all.Has(pay.Key) || all.Hangs(pay, func() { given++ }) || given != 1 {
		t.Error("it hangs after it has returned")
	}
}
