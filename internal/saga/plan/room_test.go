package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
)

// packed is a saga as large as a state may be.
type packed struct {
	*testing.T
	p   *plan.Plan
	s   plan.State
	now time.Time
}

// most returns the largest of the events make(n) that the state accepts.
func (k *packed) most(bound int, event func(n int) plan.Event) (n int) {
	k.Helper()
	for most := bound; n+1 < most; {
		mid := (n + most) / 2
		switch _, _, out := k.p.Advance(k.s, event(mid), k.now); out {
		case plan.Taken:
			n = mid
		case plan.TooLarge:
			most = mid
		default:
			k.Fatal(out)
		}
	}
	k.take(event(n))
	if n == 0 || n == bound-1 {
		k.Errorf("%d are the most", n)
	}
	return n
}

func (k *packed) take(es ...plan.Event) {
	k.Helper()
	s, _, outs := k.p.AdvanceAll(k.s, es, k.now)
	for i, out := range outs {
		if out != plan.Taken {
			k.Fatalf("%s of %s: %s", es[i].What, es[i].Step, out)
		}
	}
	k.s = s
	text, err := json.Marshal(s.Lean())
	if err != nil || len(text) > plan.MaxState {
		k.Errorf("after %s it is %d bytes, %v", es[0].What, len(text), err)
	}
}

// each returns an event for each run of a step.
func (k *packed) each(e plan.Event) {
	k.Helper()
	var es []plan.Event
	for _, r := range k.s.Runs {
		if r.Step == e.Step {
			e.Occurrence = r.Occurrence
			es = append(es, e)
		}
	}
	k.take(es...)
}

func (k *packed) old() {
	for i := range k.s.Runs {
		r := &k.s.Runs[i]
		if r.Attempts, r.Crashes = 999_999, 2; k.s.Runs[i].Sends > 0 {
			r.Sends = 999_999
		}
	}
}

// TestRoom: in the largest state there is room for all later events without data, whatever their errors and
// times.
func TestRoom(t *testing.T) {
	long := strings.Repeat("<", 2_000)
	for _, kind := range []plan.Kind{plan.Do, plan.Call, plan.Command} {
		for _, name := range []string{strings.Repeat("l", 200), strings.Repeat("<", 240)} {
			t.Run(fmt.Sprintf("%s %.1s", kind, name), func(t *testing.T) {
				without := plan.Policy{InitialInterval: time.Second, MaxInterval: time.Second}
				k := &packed{T: t, now: time.Date(2026, 1, 1, 1, 1, 1, 123456789, time.FixedZone("", 5*3600)),
					p: plan.New(plan.Graph{Name: "d", Deadline: time.Hour, Steps: []plan.Step{
						{Name: "first", Kind: plan.Do, Undo: true, Back: without},
						{Name: name, Kind: kind, Undo: true, Each: true, Try: without, Back: without,
							After: []string{"first"}},
						{Name: "last", Kind: plan.Do, NoEffect: true, After: []string{name}},
					}})}
				k.s, _ = k.p.Begin("id", k.now)
				k.take(plan.Event{What: plan.Succeeded, Step: "first", Output: json.RawMessage(`"first"`)})
				n := k.most(20_000, func(n int) plan.Event {
					all := make([]string, n)
					for i := range all {
						all[i] = fmt.Sprint(name, i)
					}
					return plan.Event{What: plan.Decided, Step: name, Occurrences: all}
				})
				t.Logf("%d occurrences", n)
				if _, _, out := k.p.Advance(k.s, plan.Event{What: plan.Succeeded, Step: name,
					Occurrence: name + "0", Output: json.RawMessage(`"` + long + `"`)},
					k.now); kind == plan.Do && out != plan.TooLarge {
					t.Errorf("one more output: %s", out)
				}
				if kind != plan.Do {
					k.each(plan.Event{What: plan.Sent, Step: name})
				}
				k.old()
				if kind == plan.Command {
					k.now = k.s.Next()
				} else {
					k.each(plan.Event{What: plan.Failed, Step: name, Reason: long})
					k.each(plan.Event{What: plan.Crashed, Step: name, Reason: long})
				}
				k.take(plan.Event{What: plan.Cancel, Reason: long})
				if kind == plan.Call {
					k.old()
					k.each(plan.Event{What: plan.Failed, Step: name, Stick: true, Reason: long})
					k.old()
					k.each(plan.Event{What: plan.Succeeded, Step: name})
				}
			})
		}
	}
}

// TestRoomForUndo: if the output of a step fills the state completely, there is still room for the events
// of its undo.
func TestRoomForUndo(t *testing.T) {
	long := strings.Repeat("<", 2_000)
	k := &packed{T: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		p: plan.New(plan.Graph{Name: "d", Steps: []plan.Step{
			{Name: "first", Kind: plan.Call, Undo: true},
			{Name: "next", Kind: plan.Wait, Signal: "go", NoEffect: true, After: []string{"first"}},
		}})}
	k.s, _ = k.p.Begin("id", k.now)
	k.take(plan.Event{What: plan.Sent, Step: "first", Memo: json.RawMessage(`{}`)})
	k.most(plan.MaxState, func(n int) plan.Event {
		return plan.Event{What: plan.Succeeded, Step: "first",
			Output: json.RawMessage(`"` + strings.Repeat("x", n) + `"`)}
	})
	signal := plan.Event{What: plan.Signal, Name: "go", Output: json.RawMessage(`"` + long + `"`)}
	if _, _, out := k.p.Advance(k.s, signal, k.now); out != plan.TooLarge {
		t.Errorf("a signal: %s", out)
	}
	if err := k.p.Large(k.s, signal, k.now); !strings.Contains(err.Error(), "at most 921600") {
		t.Error(err)
	}
	k.take(plan.Event{What: plan.Cancel, Reason: long})
	k.take(plan.Event{What: plan.UndoSent, Step: "first",
		Memo: json.RawMessage(`"` + strings.Repeat("x", 20<<10) + `"`)})
	k.take(plan.Event{What: plan.UndoFailed, Step: "first", Permanent: true, Reason: long})
	if !k.s.Stuck() || k.s.Lean().Runs[0].Error == "" {
		t.Error("it is not stuck, or has no reason")
	}
}

// TestRoomForMany: the data of the events of a batch is added up.
func TestRoomForMany(t *testing.T) {
	p := plan.New(plan.Graph{Name: "d",
		Steps: []plan.Step{{Name: "a", Kind: plan.Command, Undo: true, Each: true}}})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s, _ := p.Begin("id", now)
	all, es := make([]string, 100), make([]plan.Event, 100)
	for i := range all {
		all[i] = fmt.Sprint(i)
		es[i] = plan.Event{What: plan.Succeeded, Step: "a", Occurrence: all[i],
			Output: json.RawMessage(`"` + strings.Repeat("x", 20<<10) + `"`)}
	}
	s, _, _ = p.Advance(s, plan.Event{What: plan.Decided, Step: "a", Occurrences: all}, now)
	for i := range all {
		s, _, _ = p.Advance(s, plan.Event{What: plan.Sent, Step: "a", Occurrence: all[i]}, now)
	}
	was := len(s.Runs)
	s, _, outs := p.AdvanceAll(s, es, now)
	n := 0
	for i, out := range outs {
		if r := s.Runs[i]; (out == plan.Taken) != (r.Phase == plan.IsDone && len(r.Output) > 20<<10) ||
			out != plan.Taken && out != plan.TooLarge {
			t.Fatalf("%d: %s, it is %s", i, out, r.Phase)
		}
		if out == plan.Taken {
			n++
		}
	}
	if text, err := json.Marshal(s); err != nil || n < 40 || n > 45 || len(text) > plan.MaxState ||
		len(s.Runs) != was {
		t.Errorf("%d of 100 outputs, %d bytes, %v", n, len(text), err)
	}
}
