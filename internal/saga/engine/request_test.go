package engine

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

type tx struct{}

// read returns a request whose stored outcome is "no" or an output.
func read(outcome string) (json.RawMessage, bool, string, error) {
	switch outcome {
	case "":
		return nil, false, "", errors.New("it cannot be read")
	case "no":
		return nil, true, "no money", nil
	}
	return json.RawMessage(outcome), false, "", nil
}

func TestRequestForFindsTheRequestOfAnAction(t *testing.T) {
	undo := Request[tx]{Read: read}
	both := &StepBody{Tx: &Outside[tx]{Undo: &undo}}
	one := &StepBody{Tx: &Outside[tx]{}}
	for _, c := range []struct {
		name string
		step *StepBody
		verb plan.Verb
		want bool
	}{
		{"a step", both, plan.RunStep, true},
		{"its undo", both, plan.UndoStep, true},
		{"an undo in a transaction", one, plan.UndoStep, false},
		{"its condition", both, plan.DecideStep, false},
		{"a step in a transaction", &StepBody{Tx: &Local[tx]{}}, plan.RunStep, false},
	} {
		if _, is := requestFor[tx](c.step, plan.Action{Verb: c.verb}); is != c.want {
			t.Errorf("%s is a request: %t", c.name, is)
		}
	}
}

func TestEventConvertsAnswers(t *testing.T) {
	for _, c := range []struct {
		verb    plan.Verb
		outcome string
		want    plan.What
		refused bool
		reason  string
	}{
		{plan.RunStep, `"paid"`, plan.Succeeded, false, ""},
		{plan.RunStep, "no", plan.Rejected, true, "no money"},
		{plan.UndoStep, `"back"`, plan.UndoDone, false, ""},
		{plan.UndoStep, "no", plan.UndoFailed, true, "no money"},
	} {
		a := plan.Action{Verb: c.verb, Step: "pay"}
		e, refused, err := event(Request[tx]{Read: read}, a, store.Call{Outcome: c.outcome}, 100)
		if err != nil || e.What != c.want || refused != c.refused || e.Reason != c.reason || e.Step != "pay" {
			t.Errorf("%s answered %s: %+v, %v", c.verb, c.outcome, e, err)
		}
	}
	a := plan.Action{Verb: plan.RunStep, Step: "pay"}
	if _, _, err := event(Request[tx]{Read: read}, a, store.Call{}, 100); err == nil {
		t.Error("a malformed outcome is accepted")
	}
	e, _, err := event(Request[tx]{Read: read}, a, store.Call{Outcome: `"much too long"`}, 4)
	if err != nil || e.What != plan.Succeeded || e.Output != nil || e.Reason == "" {
		t.Errorf("an output that is too large: %+v, %v", e, err)
	}
}

func TestAMalformedStoredCallFailsPermanently(t *testing.T) {
	q := ask[tx]{Action: plan.Action{Verb: plan.RunStep, Step: "pay"}, Memo: json.RawMessage("?")}
	out := q.Make(t.Context())
	if e := out.Unknown(); e.What != plan.Failed || !e.Permanent {
		t.Errorf("%+v becomes %+v", out, e)
	}
	late := answer{Action: q.Action, Err: errors.New("not now"), Later: time.Minute}
	if e := late.Unknown(); e.Later != time.Minute || e.Permanent {
		t.Errorf("a request that is to be retried later becomes %+v", e)
	}
	if e := (&answer{Action: q.Action, Err: errors.New("not now")}).Unknown(); e.Later >= leastWait {
		t.Errorf("a failed request becomes %+v", e)
	}
}
