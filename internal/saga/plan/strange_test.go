package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

// FuzzAdvance: whatever a row holds and whatever comes, nothing panics, and what is not taken changes
// nothing.
func FuzzAdvance(f *testing.F) {
	f.Add(`{"status":"running","runs":[{"step":"gone","phase":"ready","stuck":true}]}`, `{"What":"cancel"}`)
	f.Add(`{"status":"compensating","runs":[{"step":"gone","phase":"waiting","sent":true},{"step":"hold","phase":"done"}]}`, `{"What":"retry"}`)
	f.Add(`{"status":"running","runs":[{"step":"charge","phase":"ready","sent":true}]}`, `{"What":"done","Step":"charge"}`)
	f.Add(`{"status":"compensating","runs":[{"step":"ship","phase":"waiting","sent":true}]}`, `{"What":"done","Step":"ship"}`)
	p := plan.New(plan.Graph{Name: "order", Steps: []plan.Step{
		{Name: "hold", Kind: plan.Do, Undo: true, Each: true},
		{Name: "charge", Kind: plan.Call, Undo: true, After: []string{"hold"}},
		{Name: "ship", Kind: plan.Command, Pivot: true, After: []string{"charge"}},
	}})
	f.Fuzz(func(t *testing.T, state, event string) {
		var s plan.State
		var e plan.Event
		if json.Unmarshal([]byte(state), &s) != nil || json.Unmarshal([]byte(event), &e) != nil {
			t.Skip()
		}
		before, _ := json.Marshal(s)
		next, actions, out := p.Advance(s, e, time.Unix(1, 0))
		if after, _ := json.Marshal(s); string(after) != string(before) {
			t.Fatalf("%s changed to %s", before, after)
		}
		if now, _ := json.Marshal(next); !out.Changed() && (string(now) != string(before) || len(actions) > 0) {
			t.Fatalf("%s is %s, and %s came of it", event, out, now)
		}
	})
}
