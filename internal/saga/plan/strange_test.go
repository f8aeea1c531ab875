package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

// FuzzAdvance checks that no state and no event causes a panic, and that an event without effect changes
// nothing.
func FuzzAdvance(f *testing.F) {
	f.Add(`{"status":"running","runs":[{"step":"gone","phase":"ready","stuck":true}]}`, `{"What":"cancel"}`)
	f.Add(`{"status":"compensating","runs":[{"step":"gone","phase":"waiting","sent":true},{"step":"hold","phase":"done"}]}`, `{"What":"retry"}`)
	f.Add(`{"status":"running","runs":[{"step":"charge","phase":"ready","sent":true}]}`,
		`{"What":"done","Step":"charge"}`)
	f.Add(`{"status":"compensating","runs":[{"step":"ship","phase":"waiting","sent":true}]}`,
		`{"What":"done","Step":"ship"}`)
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
		if now, _ := json.Marshal(next); !out.Changed() &&
			(string(now) != string(before) || len(actions) > 0) {
			t.Fatalf("%s is %s, but the state became %s", event, out, now)
		}
	})
}

// TestByHandOfAChild: a running child cannot be skipped, because nothing would undo it. If its step is
// completed by hand, it is undone later.
func TestByHandOfAChild(t *testing.T) {
	p, now := plan.New(line(t, "kid child undo", "pay do pivot")), time.Now()
	s, _ := p.Begin("id", now)
	s, _, _ = p.Advance(s, plan.Event{What: plan.Sent, Step: "kid", Memo: []byte(`{"Key":"k"}`)}, now)
	if _, _, out := p.Advance(s, plan.Event{What: plan.Skip, Step: "kid"}, now); out != plan.Runs {
		t.Error("skip:", out)
	}
	s, _, out := p.Advance(s, plan.Event{What: plan.Complete, Step: "kid", Output: []byte("null")}, now)
	if run, _ := s.Run("kid", ""); out != plan.Taken || string(run.Output) != `{"Key":"k"}` {
		t.Errorf("complete: %s, %s", out, run.Output)
	}
}

// TestSkipOfASentStep: a skipped command that was sent may have taken effect, so it is undone when the
// saga turns back. A call whose request was sent cannot be skipped.
func TestSkipOfASentStep(t *testing.T) {
	p, now := plan.New(line(t, "charge call undo", "ship command undo", "pay do pivot")), time.Now()
	s, _ := p.Begin("id", now)
	s, _, _ = p.Advance(s, plan.Event{What: plan.Sent, Step: "charge"}, now)
	if _, _, out := p.Advance(s, plan.Event{What: plan.Skip, Step: "charge"}, now); out != plan.Runs {
		t.Error("skip the call:", out)
	}
	s, _, _ = p.Advance(s, plan.Event{What: plan.Complete, Step: "charge"}, now)
	for name, sent := range map[string]bool{"sent": true, "not sent": false} {
		s := s
		if sent {
			s, _, _ = p.Advance(s, plan.Event{What: plan.Sent, Step: "ship"}, now)
		}
		s, _, out := p.Advance(s, plan.Event{What: plan.Skip, Step: "ship"}, now)
		if out != plan.Taken {
			t.Fatalf("%s: skip: %s", name, out)
		}
		s, _, _ = p.Advance(s, plan.Event{What: plan.Cancel}, now)
		want := map[bool]plan.Phase{true: plan.Undo, false: plan.Skipped}[sent]
		if run, _ := s.Run("ship", ""); run.Phase != want {
			t.Errorf("%s, skipped and cancelled: %s, want %s", name, run.Phase, want)
		}
	}
}

// TestRefusalOfAnEarlierUndo: a refusal of an earlier undo has no effect, because another one was sent
// since.
func TestRefusalOfAnEarlierUndo(t *testing.T) {
	p, now := plan.New(line(t, "ship command undo", "pay do pivot")), time.Now()
	s, _ := p.Begin("id", now)
	feed := func(e plan.Event, want plan.Outcome) {
		t.Helper()
		e.Step = "ship"
		var out plan.Outcome
		if s, _, out = p.Advance(s, e, now); out != want {
			t.Fatalf("%s: %s, want %s", e.What, out, want)
		}
	}
	no := plan.Event{What: plan.UndoFailed, Permanent: true, Reason: "no"}
	feed(plan.Event{What: plan.Sent}, plan.Taken)
	feed(plan.Event{What: plan.Cancel}, plan.Taken)
	feed(plan.Event{What: plan.UndoSent}, plan.Taken)
	feed(plan.Event{What: plan.UndoFailed, Attempt: 1, Reason: "no reply in time"}, plan.Taken)
	feed(plan.Event{What: plan.UndoSent}, plan.Taken)
	run, _ := s.Run("ship", "")
	no.Sends = run.Sends - 1
	feed(no, plan.NotWaiting)
	no.Sends = run.Sends
	feed(no, plan.Taken)
	if run, _ := s.Run("ship", ""); !run.Stuck {
		t.Errorf("%+v", run)
	}
	feed(no, plan.Repeat)
	feed(plan.Event{What: plan.Retry}, plan.Taken)
	feed(plan.Event{What: plan.UndoSent}, plan.Taken)
	feed(no, plan.NotWaiting)
	feed(plan.Event{What: plan.UndoDone}, plan.Taken)
}

// TestSignalsOfSteps: a signal for an occurrence that does not exist is refused, and two steps cannot wait
// for one signal.
func TestSignalsOfSteps(t *testing.T) {
	g := line(t, "weigh wait signal=weighed each noeffect", "pay do pivot")
	p, now := plan.New(g), time.Now()
	s, _ := p.Begin("id", now)
	if _, _, out := p.Advance(s, plan.Event{What: plan.Signal, Name: "weighed", Occurrence: "up"},
		now); out != plan.Early {
		t.Error("before it is known:", out)
	}
	s, _, _ = p.Advance(s, plan.Event{What: plan.Decided, Step: "weigh", Occurrences: []string{"left"}}, now)
	for occurrence, want := range map[string]plan.Outcome{"left": plan.Taken, "up": plan.Unknown} {
		if _, _, out := p.Advance(s, plan.Event{What: plan.Signal, Name: "weighed", Occurrence: occurrence},
			now); out != want {
			t.Errorf("for %s: %s", occurrence, out)
		}
	}
	g.Steps = append(g.Steps, plan.Step{Name: "again", Kind: plan.Wait, Signal: "weighed", NoEffect: true,
		After: []string{"pay"}})
	if got := fmt.Sprint(g.Faults()); !strings.Contains(got, "the same signal") {
		t.Error(got)
	}
}

// TestCrashesInARow: only three consecutive crashes make a step stuck. A step that returned between them
// did not cause them alone.
func TestCrashesInARow(t *testing.T) {
	p, now := plan.New(line(t, "hold do undo", "pay do pivot")), time.Now()
	s, _ := p.Begin("id", now)
	crash := plan.Event{What: plan.Crashed, Step: "hold"}
	for _, e := range []plan.Event{crash, crash, {What: plan.Failed, Step: "hold", Later: time.Second},
		crash, crash} {
		if s, _, _ = p.Advance(s, e, now); s.Stuck() {
			t.Fatalf("stuck after %s", e.What)
		}
	}
	if s, _, _ = p.Advance(s, crash, now); !s.Stuck() {
		t.Error("three in a row do not count")
	}
}

// TestUnsureStepDelaysUndos: a step that ended its own transaction may have taken effect. If the saga
// turns back, nothing is undone before an operator decides, and the step itself is undone only if it took
// effect. A step that crashed its process was rolled back, and delays nothing.
func TestUnsureStepDelaysUndos(t *testing.T) {
	g := line(t, "hold do undo", "pay do undo", "look do noeffect")
	g.Steps[2].After, g.Deadline = []string{"hold"}, time.Minute
	p, now := plan.New(g), time.Now()
	after := func(es ...plan.Event) (s plan.State, outs []plan.Outcome) {
		s, _ = p.Begin("id", now)
		s, _, outs = p.AdvanceAll(s, es, now.Add(time.Hour))
		return s, outs
	}
	hold, own := plan.Event{What: plan.Succeeded, Step: "hold"}, plan.Event{What: plan.Failed, Step: "pay",
		Stick: true, Permanent: true}
	crash := plan.Event{What: plan.Crashed, Step: "pay"}
	back := []plan.Event{{What: plan.Cancel}, {What: plan.Tick}, {What: plan.Rejected, Step: "look"},
		{What: plan.Failed, Step: "look", Permanent: true}}
	for _, turns := range back {
		s, _ := after(hold, own, turns)
		if s.Status != plan.Compensating || !s.Stuck() || len(p.Pending(s)) > 0 {
			t.Errorf("%s: %s", turns.What, stateText(s))
		}
		for what, want := range map[plan.What]string{plan.Complete: "pay", plan.Skip: "hold"} {
			s, _ := after(hold, own, turns, plan.Event{What: plan.Retry},
				plan.Event{What: what, Step: "pay", Output: []byte("1")})
			if todo := p.Pending(s); len(todo) != 1 || todo[0].Verb != plan.UndoStep || todo[0].Step != want {
				t.Errorf("%s, %s: %+v", turns.What, what, todo)
			}
		}
		if s, _ := after(hold, crash, crash, crash, turns); s.Stuck() || len(p.Pending(s)) != 1 {
			t.Errorf("%s after it crashed its process: %s", turns.What, stateText(s))
		}
	}
	again := plan.Event{What: plan.Retry, Step: "pay"}
	if s, outs := after(hold, own, back[0], again); outs[3] != plan.NotWaiting || !s.Stuck() {
		t.Errorf("retried on the way back: %v", outs)
	}
	if s, _ := after(hold, own, again, back[0]); s.Stuck() { // an operator found no effect
		t.Errorf("retried before that: %s", stateText(s))
	}
}
