package plan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/skald-go/skald/internal/saga/plan"
)

// The model records the effects outside of the saga: which steps took effect and were undone. It computes
// independently which actions a saga may ask for, and checks at the end that each step was done once or
// undone once.

type key struct{ step, occurrence string }

// truth is the real state of one run.
type truth struct {
	began   int // its place in the order of beginnings
	sent    bool
	open    bool // begun on the way forward, and not ended
	passed  bool
	effect  int // number of effects
	undone  int
	barred  bool // barred at the participant, or the key is voided: no effect will follow
	settled bool // its outcome is known
}

type world struct {
	t *rapid.T
	p *plan.Plan
	s plan.State
	advance
	now    time.Time
	truths map[key]*truth
	back   bool // it turned back
	past   []plan.Event
	stop   bool // no new faults
	byHand bool // an operator skipped something
}

func TestModel(t *testing.T) {
	hurry(t)
	rapid.Check(t, play)
}

func play(t *rapid.T) {
	g := graphs(t)
	if faults := g.Faults(); len(faults) > 0 {
		t.Fatalf("%v\n%+v", faults, g)
	}
	w := &world{t: t, p: plan.New(g), advance: advancing(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		truths: map[key]*truth{}}
	s, actions := w.p.Begin("id", w.now)
	w.s = s
	w.look(nil, actions)
	for range rapid.IntRange(0, 60).Draw(t, "moves") {
		if w.s.Status.Final() {
			break
		}
		w.move()
	}
	w.stop = true
	for n := 0; !w.s.Status.Final(); n++ {
		if n > 2000 {
			t.Fatalf("it does not end: %s", stateText(w.s))
		}
		w.finish()
	}
	w.judge()
	for _, e := range w.past { // a repeated event changes nothing
		if _, _, out := w.advance(w.p, w.s, e, w.now); out.Changed() {
			t.Errorf("%+v after the end: %s", e, out)
		}
	}
}

// graphs draws a graph without faults.
func graphs(t *rapid.T) plan.Graph {
	n := rapid.IntRange(1, 6).Draw(t, "steps")
	pivot := rapid.IntRange(-n, n-1).Draw(t, "pivot")
	g := plan.Graph{Name: "model"}
	if rapid.Bool().Draw(t, "deadline") {
		g.Deadline = time.Minute
	}
	kinds := []plan.Kind{plan.Do, plan.Call, plan.Command, plan.Wait, plan.Child}
	for i := range n {
		s := plan.Step{Name: string(rune('a' + i)), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			Pivot: i == pivot,
			Try: plan.Policy{Attempts: rapid.IntRange(0, 3).Draw(t, "attempts"), InitialInterval: time.Second,
				MaxInterval: time.Minute},
			Back: plan.Policy{Attempts: rapid.IntRange(0, 3).Draw(t, "undo attempts"),
				InitialInterval: time.Second,
				MaxInterval:     time.Minute}}
		for j := range i {
			if i == pivot || j == pivot || rapid.Bool().Draw(t, "after") {
				s.After = append(s.After, g.Steps[j].Name)
			}
		}
		s.When = rapid.IntRange(0, 3).Draw(t, "when") == 0
		s.Each = !s.Pivot && rapid.IntRange(0, 3).Draw(t, "each") == 0
		if rapid.Bool().Draw(t, "timeout") {
			s.Try.Timeout, s.Back.Timeout = time.Hour, time.Hour
		}
		if s.Kind == plan.Wait {
			s.NoEffect = true
			if rapid.Bool().Draw(t, "signal") {
				s.Signal, s.Lapses = "signal "+s.Name, rapid.Bool().Draw(t, "lapses")
			}
		} else if pivot < 0 || i <= pivot {
			s.Undo = rapid.IntRange(0, 3).Draw(t, "undo") > 0
			s.NoEffect = !s.Undo && !s.Pivot
		}
		g.Steps = append(g.Steps, s)
	}
	return g
}

func (w *world) step(name string) plan.Step {
	s, _ := w.p.Step(name)
	return s
}

// feed advances the saga, and checks the invariants of each transition.
func (w *world) feed(e plan.Event) plan.Outcome {
	before, err := json.Marshal(w.s)
	if err != nil {
		w.t.Fatal(err)
	}
	was := w.s
	s, actions, out := w.advance(w.p, w.s, e, w.now)
	if after, _ := json.Marshal(was); !bytes.Equal(before, after) {
		w.t.Fatalf("%+v changed its argument", e)
	}
	if e.What == plan.Tick || e.What == plan.Retry || e.What == plan.Pause || e.What == plan.Resume {
		// may be repeated at any time, with an effect
	} else if out.Changed() {
		w.past = append(w.past, e)
		if _, _, again := w.advance(w.p, s, e, w.now); again.Changed() &&
			(e.What == plan.Succeeded || e.What == plan.Rejected ||
				e.What == plan.UndoDone || e.What == plan.Decided || e.What == plan.Sent ||
				e.What == plan.UndoSent || e.What == plan.Cancel || e.What == plan.Signal) {
			w.t.Fatalf("%+v was taken twice: %s", e, stateText(s))
		}
	}
	if !out.Changed() {
		if now, _ := json.Marshal(s); !bytes.Equal(before, now) || len(actions) > 0 {
			w.t.Fatalf("%+v is %s, but changed the state or returned %v", e, out, actions)
		}
		return out
	}
	data, _ := json.Marshal(s)
	var stored plan.State
	if err := json.Unmarshal(data, &stored); err != nil {
		w.t.Fatal(err)
	}
	w.s = stored
	w.look(w.p.Pending(was), actions)
	return out
}

// look compares the saga's actions with those of the model.
func (w *world) look(before, told []plan.Action) {
	pending := w.p.Pending(w.s)
	for _, a := range pending {
		if !slices.Contains(before, a) && !slices.Contains(told, a) {
			w.t.Fatalf("%+v is pending, but was not returned", a)
		}
	}
	w.watchTurn()
	for i, r := range w.s.Runs {
		k := key{r.Step, r.Occurrence}
		tr, ok := w.truths[k]
		if !ok {
			if r.Phase == plan.Dropped || w.back {
				continue
			}
			tr = &truth{open: true}
			w.truths[k] = tr
			for _, after := range w.step(r.Step).After {
				if !w.passed(after) {
					w.t.Fatalf("%s begins before %s is passed: %s", r.Step, after, stateText(w.s))
				}
			}
		}
		tr.began = i
		if r.Phase == plan.IsDone || r.Phase == plan.Skipped {
			tr.passed = true
		}
	}
	for _, a := range pending {
		w.may(a)
	}
	if !w.s.Status.Final() && !w.s.Paused && len(pending) == 0 && w.s.Next().IsZero() && !w.s.Stuck() &&
		!slices.ContainsFunc(w.s.Runs,
			func(r plan.Run) bool { return r.Phase == plan.Waiting || r.Phase == plan.Undoing }) {
		w.t.Fatalf("nothing will ever move it: %s", stateText(w.s))
	}
}

// watchTurn records that the saga turned back, or continued after all.
func (w *world) watchTurn() {
	backwards := w.s.Status == plan.Compensating || w.s.Status == plan.Compensated
	if backwards && !w.back && w.pivotPassed() {
		w.t.Fatalf("it turned back after its pivot: %s", stateText(w.s))
	}
	if !backwards && w.back && !w.pivotPassed() {
		w.t.Fatalf("it goes on after it turned back: %s", stateText(w.s))
	}
	w.back = backwards
}

func (w *world) passed(step string) bool {
	some := false
	for k, tr := range w.truths {
		if k.step == step {
			if some = true; !tr.passed {
				return false
			}
		}
	}
	return some
}

// pivotPassed reports whether the pivot was done before the current event.
func (w *world) pivotPassed() bool {
	for _, s := range w.p.Graph.Steps {
		if s.Pivot {
			r, ok := w.s.Run(s.Name, "")
			return ok && (r.Phase == plan.IsDone || r.Phase == plan.Skipped)
		}
	}
	return false
}

// may checks that an action is allowed. It finds undos of steps that were not done, have an unknown
// outcome, or are out of order.
func (w *world) may(a plan.Action) {
	tr := w.truths[key{a.Step, a.Occurrence}]
	step := w.step(a.Step)
	switch a.Verb {
	case plan.DecideStep, plan.RunStep:
		if w.back {
			w.t.Fatalf("%+v on the way back", a)
		}
	case plan.SettleStep:
		if !w.back || !tr.sent || tr.settled {
			w.t.Fatalf("%+v: there is nothing to settle", a)
		}
	case plan.UndoStep:
		if !w.back || w.pivotPassed() {
			w.t.Fatalf("%+v on the way forward", a)
		}
		if step.Kind != plan.Command && (tr.effect == 0 || !tr.settled) {
			w.t.Fatalf("%+v undoes what was not done, or is not known", a)
		}
		r, _ := w.s.Run(a.Step, a.Occurrence)
		if step.Kind != plan.Command && !bytes.Equal(r.Output, output(a.Step)) {
			w.t.Fatalf("%+v gets the output %s", a, r.Output)
		}
		for k, other := range w.truths {
			s := w.step(k.step)
			if k == (key{a.Step, a.Occurrence}) || s.Kind == plan.Wait {
				continue
			}
			if other.sent && !other.settled && s.Undo && s.Kind != plan.Command {
				w.t.Fatalf("%+v before it is known what became of %v", a, k)
			}
			if other.began > tr.began && s.Undo && other.effect > other.undone &&
				s.Kind != plan.Command && !w.byHand {
				w.t.Fatalf("%+v before %v, which began later", a, k)
			}
		}
	}
}

func output(step string) json.RawMessage { return json.RawMessage(fmt.Sprintf("%q", step)) }

// judge checks that each step was done once or undone once, and that the saga's state matches the effects.
func (w *world) judge() {
	for _, s := range w.p.Graph.Steps {
		for k, tr := range w.truths {
			if k.step != s.Name {
				continue
			}
			r, _ := w.s.Run(k.step, k.occurrence)
			switch {
			case tr.effect > 1 || tr.undone > tr.effect:
				w.t.Fatalf("%v took effect %d times and was undone %d times", k, tr.effect, tr.undone)
			case w.byHand || s.Kind == plan.Wait:
			case w.s.Status == plan.Done && (r.Phase == plan.IsDone) != (tr.effect == 1 && tr.undone == 0):
				w.t.Fatalf("%v is %s, took effect %d times and was undone %d times", k, r.Phase,
					tr.effect, tr.undone)
			case w.s.Status == plan.Compensated && s.Undo && tr.effect != tr.undone:
				w.t.Fatalf("%v took effect %d times and was undone %d times: %s", k, tr.effect, tr.undone,
					stateText(w.s))
			case w.s.Status == plan.Compensated && s.Pivot && !s.Undo && tr.effect > 0:
				w.t.Fatalf("the pivot %v took effect, and the saga is compensated", k)
			}
		}
	}
	if w.s.Status == plan.Done {
		for _, s := range w.p.Graph.Steps {
			if !w.passed(s.Name) {
				w.t.Fatalf("it is done without %s: %s", s.Name, stateText(w.s))
			}
		}
	}
}
