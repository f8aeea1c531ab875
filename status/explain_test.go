package status_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/status"
)

// TestExplainTurnedBack checks that the text about a saga that turned back contains only facts from its
// steps.
func TestExplainTurnedBack(t *testing.T) {
	step := func(outcome string) operate.StepProgress {
		return operate.StepProgress{Name: outcome, Outcome: outcome}
	}
	for want, s := range map[string]operate.SagaProgress{
		"failed, and nothing has to be undone.": {State: "compensating",
			Steps: []operate.StepProgress{step(operate.StepDone), step(operate.StepFailed)}},
		"failed, and its work is undone.": {State: "compensated",
			Steps: []operate.StepProgress{step(operate.StepUndone), step(operate.StepFailed)}},
		"turned back, and its work is being undone.": {State: "compensating",
			Steps: []operate.StepProgress{step(operate.StepDone)}},
	} {
		s.Style, s.Name, s.Key = operate.Choreographed, "order", "o-1"
		lines := status.Explain(&status.Answer{Key: "o-1", Sagas: []status.Saga{{SagaProgress: s}}},
			time.Now())
		if lines[0] != "order o-1 "+want {
			t.Errorf("%s\nwant %s", strings.Join(lines, "\n"), want)
		}
	}
}

// TestExplainRejectionThatHolds checks that a rejection that blocks its key is explained as a final answer,
// and not as a message that Skald gave up.
func TestExplainRejectionThatHolds(t *testing.T) {
	h := operate.BlockingMessage{Consumer: "stock", State: "dead", Kind: "rejected", Type: "order.placed", ID: "m-1",
		LastError: "sold out.", Command: "skald dead drop m-1"}
	lines := status.Explain(&status.Answer{Key: "o-1",
		Held: []status.Held{{Service: "inventory", BlockingMessage: h}}},
		time.Now())
	want := "stock of inventory rejected order.placed (m-1): sold out. The rejection is final, and messages after it " +
		"wait until an operator drops it: skald dead drop m-1"
	if got := lines[len(lines)-1]; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
