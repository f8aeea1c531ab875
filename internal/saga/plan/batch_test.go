package plan_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/skald-go/skald/internal/saga/plan"
)

// TestManyEventsAtOnce: many events at once have the same effect as one by one, and ask for the actions of
// the final state.
func TestManyEventsAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, now := plan.New(graphs(t)), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		begun, _ := p.Begin("id", now)
		s := begun
		var es []plan.Event
		var outs []plan.Outcome
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			e := plan.Event{What: rapid.SampledFrom([]plan.What{plan.Cancel, plan.Tick, plan.Pause,
				plan.Resume, plan.Retry}).Draw(t, "verb")}
			if todo := p.Pending(s); len(todo) > 0 && rapid.IntRange(0, 5).Draw(t, "act") > 0 {
				a := rapid.SampledFrom(todo).Draw(t, "action")
				e = plan.Event{Step: a.Step, Occurrence: a.Occurrence,
					What: rapid.SampledFrom([]plan.What{plan.Succeeded, plan.Sent, plan.Rejected,
						plan.Failed}).Draw(t, "what")}
				switch a.Verb {
				case plan.DecideStep:
					e.What, e.Occurrences = plan.Decided, []string{"x", "y"}
				case plan.UndoStep:
					e.What = plan.UndoDone
				}
			}
			var out plan.Outcome
			s, _, out = p.Advance(s, e, now)
			es, outs = append(es, e), append(outs, out)
		}
		all, actions, got := p.AdvanceAll(begun, es, now)
		one, _ := json.Marshal(s)
		many, _ := json.Marshal(all)
		if string(one) != string(many) || !slices.Equal(outs, got) {
			t.Fatalf("one by one\n%s %v\nat once\n%s %v", one, outs, many, got)
		}
		pending, before := p.Pending(s), p.Pending(begun)
		for _, a := range actions {
			if a.Verb != plan.Alarm && a.Verb != plan.Finish && !slices.Contains(pending, a) {
				t.Fatalf("%+v is returned, but not pending", a)
			}
		}
		for _, a := range pending {
			if !slices.Contains(actions, a) && !slices.Contains(before, a) {
				t.Fatalf("%+v is pending, but was not returned", a)
			}
		}
	})
}
