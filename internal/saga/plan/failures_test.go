package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

// failing advances a saga by failures, and returns the errors of all its failures.
func failing(t *testing.T, p *plan.Plan, s plan.State, es ...plan.Event) (plan.State, []string) {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, e := range es {
		var out plan.Outcome
		before := s
		text, _ := json.Marshal(before)
		if e.What == plan.Tick {
			now = s.Next()
		}
		if s, _, out = p.Advance(s, e, now); out != plan.Taken {
			t.Fatalf("%+v: %s", e, out)
		}
		if after, _ := json.Marshal(before); string(after) != string(text) {
			t.Fatalf("%+v changed its argument", e)
		}
		s = stored(t, s)
	}
	var out []string
	for _, f := range s.Failures {
		text := f.Step + f.Occurrence + ": " + f.Error
		if f.Undo {
			text = "undo " + text
		}
		out = append(out, text)
	}
	return s, out
}

// TestFailures: each kind of failed attempt is recorded, and a success keeps the record.
func TestFailures(t *testing.T) {
	always := plan.Policy{InitialInterval: time.Second, MaxInterval: time.Second}
	limited := always
	limited.Timeout = time.Minute
	fail := func(what plan.What, step, why string) plan.Event {
		return plan.Event{What: what, Step: step, Reason: why}
	}
	free, later, stick := fail(plan.Failed, "a", "deadlock"), fail(plan.Failed, "a", "later"),
		fail(plan.Failed, "a", "ended")
	free.Passing, later.Later, stick.Stick = true, time.Second, true
	ok := plan.Event{What: plan.Succeeded, Step: "a"}
	sent := plan.Event{What: plan.Sent, Step: "b"}
	for name, c := range map[string]struct {
		kind plan.Kind // of the step b
		es   []plan.Event
		want string
	}{
		"counted, free and later": {plan.Do, []plan.Event{fail(plan.Failed, "a", "one"), free, later, ok},
			"a: one, a: deadlock, a: later"},
		"crash":              {plan.Do, []plan.Event{fail(plan.Crashed, "a", "gone"), ok}, "a: gone"},
		"ended transaction":  {plan.Do, []plan.Event{stick}, "a: ended"},
		"refusal":            {plan.Do, []plan.Event{ok, fail(plan.Rejected, "b", "no")}, "b: no"},
		"refusal, no reason": {plan.Do, []plan.Event{ok, fail(plan.Rejected, "b", "")}, "b: it was refused"},
		"no reply": {plan.Command, []plan.Event{ok, sent, {What: plan.Tick}},
			"b: there was no reply within 1m0s"},
		"late child": {plan.Child, []plan.Event{ok, sent, {What: plan.Tick}}, "b: it did not end within 1m0s"},
		"call": {plan.Call, []plan.Event{ok, sent, fail(plan.Failed, "b", "reset"),
			fail(plan.Rejected, "b", "declined")}, "b: reset, b: declined"},
		"undo": {plan.Do, []plan.Event{ok, fail(plan.Rejected, "b", "no"),
			fail(plan.UndoFailed, "a", "locked"), {What: plan.UndoDone, Step: "a"}}, "b: no, undo a: locked"},
		"settlement": {plan.Call, []plan.Event{ok, sent, {What: plan.Cancel}, fail(plan.Failed, "b", "busy"),
			fail(plan.Rejected, "b", "voided")}, "b: busy"},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan.New(plan.Graph{Name: "d", Steps: []plan.Step{
				{Name: "a", Kind: plan.Do, Undo: true, Try: always, Back: always},
				{Name: "b", Kind: c.kind, Undo: true, Try: limited, Back: limited, After: []string{"a"}}}})
			s, _ := p.Begin("id", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			s, got := failing(t, p, s, c.es...)
			if strings.Join(got, ", ") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			s.Failures = nil
			if data, _ := json.Marshal(s); strings.Contains(string(data), "failures") {
				t.Errorf("without failures: %s", data)
			}
		})
	}
}

// TestFailuresAreBounded: a state has the last failures, at most 10 of each run and 32 KiB of all.
func TestFailuresAreBounded(t *testing.T) {
	p := plan.New(plan.Graph{Name: "d", Steps: []plan.Step{{Name: "a", Kind: plan.Do, Each: true}}})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s, _ := p.Begin("id", now)
	all := make([]string, 100)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	s, _ = failing(t, p, s, plan.Event{What: plan.Failed, Step: "a", Reason: "undecided"},
		plan.Event{What: plan.Decided, Step: "a", Occurrences: all})
	fail := func(occurrence, why string) plan.Event {
		return plan.Event{What: plan.Failed, Step: "a", Occurrence: occurrence, Reason: why,
			Later: time.Second}
	}
	for n := range 12 {
		s, _ = failing(t, p, s, fail("7", fmt.Sprint("error ", n)))
	}
	if got := s.FailuresOf(7); len(got) != plan.MaxFailures || got[0].Error != "error 2" ||
		got[9].Error != "error 11" {
		t.Errorf("%+v", got)
	}
	if got := s.FailuresOf(0); len(got) != 1 || got[0].Error != "undecided" {
		t.Errorf("of the decision: %+v", got)
	}
	for _, why := range []string{strings.Repeat("<", 2_000), strings.Repeat("x", 2_000)} {
		for _, o := range all {
			s, _, _ = p.Advance(s, fail(o, why), now)
		}
		text, err := json.Marshal(s.Failures)
		last := s.Failures[len(s.Failures)-1]
		if err != nil || len(text) > plan.MaxFailureBytes || len(text) < plan.MaxFailureBytes*3/4 ||
			last.Occurrence != "99" || len(last.Error) > plan.MaxError {
			t.Errorf("%d bytes, %v, the last is of %s", len(text), err, last.Occurrence)
		}
	}
	if s.Lean().Failures != nil {
		t.Error("a state without room keeps its failures")
	}
}

// TestFailuresMove: a step's failures follow its new name.
func TestFailuresMove(t *testing.T) {
	older := plan.Graph{Name: "d", Steps: []plan.Step{{Name: "a", Kind: plan.Do, NoEffect: true}}}
	newer := plan.Graph{Name: "d", Steps: []plan.Step{{Name: "b", Kind: plan.Do, NoEffect: true}}}
	s, _ := plan.New(older).Begin("id", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s, _ = failing(t, plan.New(older), s, plan.Event{What: plan.Failed, Step: "a", Reason: "no",
		Later: time.Second})
	moved, err := plan.Move(older, newer, plan.Mapping{Rename: map[string]string{"a": "b"}}, s)
	if err != nil || len(moved.FailuresOf(0)) != 1 || s.Failures[0].Step != "a" {
		t.Errorf("%+v, %v", moved, err)
	}
}
