package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

func stepTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Pairs":           (*suite[TTx]).stepPairs,
		"Owner":           (*suite[TTx]).stepOwner,
		"Answer":          (*suite[TTx]).stepAnswer,
		"Guards":          (*suite[TTx]).stepGuards,
		"Calling":         (*suite[TTx]).stepCalling,
		"LongID":          (*suite[TTx]).stepLongID,
		"RolledBack":      (*suite[TTx]).stepRolledBack,
		"AtOnce":          (*suite[TTx]).stepAtOnce,
		"RivalWaits":      (*suite[TTx]).stepRivalWaits,
		"NoCircle":        (*suite[TTx]).stepNoCircle,
		"Names":           (*suite[TTx]).stepNames,
		"Enter":           (*suite[TTx]).stepEnter,
		"Floor":           (*suite[TTx]).stepFloor,
		"FloorOfItsOwn":   (*suite[TTx]).stepFloorOfItsOwn,
		"StaysWhileKept":  (*suite[TTx]).stepStaysWhileKept,
		"GoesBesideRival": (*suite[TTx]).stepGoesBesideRival,
	}
}

// stepLongID checks that a message recognizes its step, for any length of its ID.
func (s *suite[TTx]) stepLongID() {
	step := taking("a")
	step.State, step.ID, step.OutsideKey = store.StepCalling, strings.Repeat("i", 5000), "key"
	s.step(step, store.StepAbsent)
	if got := s.wantStep(step, store.StepCalling); got.Identity != step.Identity {
		s.Errorf("the step of %.20q… is that of %.80q", step.ID, got.ID)
	}
}

// taking returns the step in a message that takes it. undoing returns the step in a message that undoes it.
func taking(saga string) store.Step {
	return store.Step{Consumer: consumer, Saga: saga, Name: "charge", State: store.StepDone,
		Identity: mark().Identity}
}

func undoing(saga string) store.Step {
	s := taking(saga)
	s.State = store.StepUndone
	return s
}

func stepping(steps ...store.Step) store.Intake { return store.Intake{Steps: steps, Wait: patience} }

// step commits an intake with a step. It fails the test unless the intake finds the step in the state want.
func (s *suite[TTx]) step(step store.Step, want store.StepState, es ...store.Effect) {
	s.Helper()
	u := s.begin(s.d, stepping(step))
	if got := u.Found().Steps[0].State; got != want {
		s.Fatalf("%v of %s found it %v, want %v", step.State, step.Saga, got, want)
	}
	s.commit(u, es...)
}

// wantStep fails the test unless a step has that state. It changes nothing.
func (s *suite[TTx]) wantStep(step store.Step, want store.StepState) store.Step {
	s.Helper()
	u := s.begin(s.d, stepping(step))
	got := u.Found().Steps[0]
	s.rollback(u)
	if got.State != want {
		s.Fatalf("the state of %s is %v, want %v", step.Saga, got.State, want)
	}
	return got
}

// waitingStep parks a message that waits, so that it can later take the step of a saga.
func (s *suite[TTx]) waitingStep(saga string, dead bool) store.Parked {
	s.Helper()
	p, step := parked(saga, 1), taking(saga)
	if dead {
		p.Dead = &store.Death{At: time.Now(), Kind: "permanent"}
	}
	step.Identity = p.Identity
	s.apply(store.Effect{Park: &store.Park{Parked: p, Step: &step}})
	return p
}

// stepPairs checks all pairs of states and messages: the state found, and the state after it.
func (s *suite[TTx]) stepPairs() {
	no := func(saga string) store.Effect {
		step := taking(saga)
		step.State, step.From = store.StepRejected,
			[]store.StepState{store.StepAbsent, store.StepParked, store.StepDead}
		return store.Effect{Step: &step}
	}
	befores := map[string]struct {
		do   func(saga string)
		take [2]store.StepState // a take finds the first and leaves the second
		undo [2]store.StepState // an undo finds the first and leaves the second
	}{
		"absent": {func(string) {}, [2]store.StepState{store.StepAbsent, store.StepDone},
			[2]store.StepState{store.StepAbsent, store.StepBarred}},
		"done": {func(saga string) { s.step(taking(saga), store.StepAbsent) },
			[2]store.StepState{store.StepDone, store.StepDone},
			[2]store.StepState{store.StepDone, store.StepUndone}},
		"parked": {func(saga string) { s.waitingStep(saga, false) },
			[2]store.StepState{store.StepParked, store.StepDone},
			[2]store.StepState{store.StepParked, store.StepBarred}},
		"dead": {func(saga string) { s.waitingStep(saga, true) },
			[2]store.StepState{store.StepDead, store.StepDone},
			[2]store.StepState{store.StepDead, store.StepBarred}},
		"rejected": {func(saga string) { s.apply(no(saga)) },
			[2]store.StepState{store.StepRejected, store.StepRejected},
			[2]store.StepState{store.StepRejected, store.StepBarred}},
		"barred": {func(saga string) { s.step(undoing(saga), store.StepAbsent) },
			[2]store.StepState{store.StepBarred, store.StepBarred},
			[2]store.StepState{store.StepBarred, store.StepBarred}},
		"undone": {func(saga string) {
			s.step(taking(saga), store.StepAbsent)
			s.step(undoing(saga), store.StepDone)
		}, [2]store.StepState{store.StepUndone, store.StepUndone},
			[2]store.StepState{store.StepUndone, store.StepUndone}},
	}
	for _, name := range sorted(befores) {
		b := befores[name]
		b.do(name + " then taken")
		s.step(taking(name+" then taken"), b.take[0])
		s.wantStep(undoing(name+" then taken"), b.take[1])
		b.do(name + " then undone")
		s.step(undoing(name+" then undone"), b.undo[0])
		s.wantStep(taking(name+" then undone"), b.undo[1])
		s.step(undoing(name+" then undone"), b.undo[1]) // once more
		s.wantStep(taking(name+" then undone"), b.undo[1])
	}
	// Another occurrence, name, saga or consumer is another step.
	for _, change := range []func(*store.Step){func(t *store.Step) { t.Occurrence = "2" },
		func(t *store.Step) { t.Name = "reserve" },
		func(t *store.Step) { t.Saga = "other" }, func(t *store.Step) { t.Consumer = "mail" }} {
		step := taking("barred then taken")
		change(&step)
		s.wantStep(step, store.StepAbsent)
	}
}

// stepOwner checks that the result names the message that took the step, also if another message waited to
// take it. A waiting message does not change a finished step.
func (s *suite[TTx]) stepOwner() {
	p := s.waitingStep("a", false)
	if got := s.wantStep(undoing("a"), store.StepParked); got.Identity != p.Identity {
		s.Errorf("%+v waits to take the step, want %v", got, p.Identity)
	}
	other := taking("a")
	s.step(other, store.StepParked)
	for _, who := range []store.Step{undoing("a"), taking("a")} {
		if got := s.wantStep(who, store.StepDone); got.Identity != other.Identity {
			s.Errorf("%+v took the step, want %v", got, other.Identity)
		}
	}
	s.step(undoing("b"), store.StepAbsent)
	p = s.waitingStep("b", true)
	if got := s.wantStep(undoing("b"), store.StepBarred); got.Identity != p.Identity {
		s.Errorf("%+v waits for a barred step, want %v", got, p.Identity)
	}
	// Parked, then dead.
	p = s.waitingStep("c", false)
	step := taking("c")
	step.Identity = p.Identity
	e := parkAgain(p, func(p *store.Parked) { p.Dead = &store.Death{} })
	e.Park.Step = &step
	s.apply(e)
	s.wantStep(taking("c"), store.StepDead)
}

func (s *suite[TTx]) stepAnswer() {
	for i, result := range []string{"", "{\"größe\":1}\x00\xff\\" + strings.Repeat("x", 20_000)} {
		saga := fmt.Sprint("a", i)
		took := taking(saga)
		u := s.begin(s.d, stepping(took))
		took.Code, took.Result, took.From = int32(200+i), result, []store.StepState{store.StepDone}
		s.commit(u, store.Effect{Step: &took})
		for _, who := range []store.Step{taking(saga), undoing(saga)} {
			got := s.wantStep(who, store.StepDone)
			if got.Code != took.Code || got.Result != result || got.Identity != took.Identity {
				s.Errorf("%v finds %+v", who.State, got)
			}
		}
		s.step(undoing(saga), store.StepDone)
		if got := s.wantStep(undoing(saga), store.StepUndone); got.Result != result {
			s.Errorf("once it is undone, %+v", got)
		}
	}
}

// stepGuards checks that an effect on a step is stored only if the state is in From. For a taken step, it
// must also have the message that took the step.
func (s *suite[TTx]) stepGuards() {
	set := func(step store.Step, to store.StepState, from ...store.StepState) store.Effect {
		step.State, step.From = to, from
		return store.Effect{Step: &step, Rows: rows(message("a", 1)).Rows}
	}
	free := []store.StepState{store.StepAbsent, store.StepParked, store.StepDead}
	a := taking("a")
	s.applied([]bool{false, true, false, true, false},
		set(a, store.StepRejected, store.StepDone), set(a, store.StepRejected, free...),
		set(a, store.StepDone, free...),
		set(a, store.StepDone, store.StepRejected), set(taking("a"), store.StepRejected, store.StepDone))
	// A late rejection: the step was barred meanwhile.
	b := taking("b")
	u := s.begin(s.d, stepping(b))
	rival := s.d
	s.rollback(u)
	bar, err := rival.Begin(s.Context(), stepping(undoing("b")))
	s.ok(err, "bar")
	s.commit(bar)
	s.applied([]bool{false}, set(b, store.StepRejected, free...))
	s.wantStep(taking("b"), store.StepBarred)
	s.waitingStep("c", true)
	s.apply(set(taking("c"), store.StepRejected, free...))
	s.wantStep(taking("c"), store.StepRejected)
	s.wantCounts(3, 0, 0)
	// In a unit, too, and all or nothing.
	d := taking("d")
	s.wantLost(set(d, store.StepRejected, store.StepCalling))
	s.wantStep(d, store.StepAbsent)
	bad := taking("e")
	bad.State = store.StepRejected
	if _, err := s.d.Begin(s.Context(), stepping(bad)); err == nil {
		s.Error("an intake makes a step rejected")
	}
}

// stepCalling checks that an undo must first settle an external call in progress.
func (s *suite[TTx]) stepCalling() {
	mine := taking("a")
	mine.State, mine.OutsideKey = store.StepCalling, "größe-7"
	s.step(mine, store.StepAbsent)
	for _, who := range []store.Step{taking("a"), undoing("a"), mine} {
		s.step(who, store.StepCalling)
		if got := s.wantStep(who, store.StepCalling); got.OutsideKey != mine.OutsideKey ||
			got.Identity != mine.Identity {
			s.Errorf("%v finds %+v", who.State, got)
		}
	}
	mine.From, mine.OutsideKey, mine.Outcome = []store.StepState{store.StepCalling}, "", "unknown\x00\xff"
	s.apply(store.Effect{Step: &mine})
	mine.State, mine.Outcome, mine.Code, mine.Result = store.StepDone, "", 7, "r"
	s.applied([]bool{true, false}, store.Effect{Step: &mine}, store.Effect{Step: &mine})
	got := s.wantStep(undoing("a"), store.StepDone)
	if got.OutsideKey != "größe-7" || got.Outcome != "unknown\x00\xff" || got.Code != 7 || got.Result != "r" {
		s.Errorf("the call is settled as %+v", got)
	}
	// A message that failed before takes it with its own key.
	s.waitingStep("b", false)
	call := taking("b")
	call.State, call.OutsideKey = store.StepCalling, "8"
	s.step(call, store.StepParked)
	if got := s.wantStep(undoing("b"), store.StepCalling); got.OutsideKey != "8" {
		s.Errorf("the call is %+v", got)
	}
}

func (s *suite[TTx]) stepRolledBack() {
	for _, step := range []store.Step{taking("a"), undoing("a")} {
		u := s.begin(s.d, stepping(step))
		s.put(u.Tx(), "k", "v")
		s.rollback(u)
		s.wantStep(taking("a"), store.StepAbsent)
	}
	// Rolled back, and recorded as parked instead.
	p, step := parked("a", 1), taking("a")
	step.Identity = p.Identity
	u := s.begin(s.d, store.Intake{Marks: []store.Mark{arriving(p)}, Steps: []store.Step{step},
		Wait: patience})
	stored, err := u.Rollback(s.Context(), store.Effect{Park: &store.Park{Parked: p, Step: &step}})
	if s.ok(err, "park"); !stored[0] {
		s.Fatal("it is not parked")
	}
	s.wantStep(undoing("a"), store.StepParked)
	// Barred meanwhile: the retry finds that, and its key is free.
	s.step(undoing("a"), store.StepParked)
	u = s.begin(s.d, store.Intake{Marks: []store.Mark{retrying(p)}, Steps: []store.Step{step},
		Wait: patience})
	if s.found(u, store.Fresh); u.Found().Steps[0].State != store.StepBarred {
		s.Fatalf("the message that is tried again finds %+v", u.Found().Steps)
	}
	m := retrying(p)
	m.Outcome = store.Barred
	e := freed(p, &p.Attempts)
	e.Answer = &m
	s.commit(u, e)
	s.verdict(arriving(p), store.Verdict{Outcome: store.Barred})
}

func (s *suite[TTx]) stepNames() {
	var steps []store.Step
	for _, n := range [][3]string{{"a", "bc", ""}, {"ab", "c", ""}, {"a", "b", "c"}, {"", "abc", ""},
		{"größe ☃", "'\"\\ %s", "$1"}, {"A", "bc", ""},
		{strings.Repeat("long", 2000), "n", "o"}, {strings.Repeat("long", 2001), "n", "o"},
		{"\xff", "n", "\x00"}} {
		steps = append(steps, store.Step{Consumer: consumer, Saga: n[0], Name: n[1], Occurrence: n[2],
			State: store.StepDone, Identity: mark().Identity})
	}
	for _, want := range []store.StepState{store.StepAbsent, store.StepDone} {
		u := s.begin(s.d, stepping(steps...))
		for i, got := range u.Found().Steps {
			if got.State != want {
				s.Errorf("%.20q %q %q is %v, want %v", steps[i].Saga, steps[i].Name, steps[i].Occurrence,
					got.State, want)
			}
		}
		s.commit(u)
	}
}

// stepEnter checks steps in a transaction of the caller.
func (s *suite[TTx]) stepEnter() {
	for i, commit := range []bool{false, true} {
		tx := s.db.Begin(s)
		found, err := s.d.Enter(s.Context(), tx, stepping(taking("a")))
		if s.ok(err, "enter"); len(found.Steps) != 1 || found.Steps[0].State != store.StepAbsent {
			s.Fatalf("%d: enter finds %+v", i, found)
		}
		step := taking("a")
		if s.d.Write(s.Context(), tx, store.Effect{Step: &step}) == nil {
			s.Error("a step is set in a transaction of the caller's own")
		}
		if commit {
			s.ok(s.db.Rollback(tx), "roll back") // the refused write may have aborted it
			tx = s.db.Begin(s)
			_, err := s.d.Enter(s.Context(), tx, stepping(taking("a")))
			s.ok(err, "enter")
			s.ok(s.db.Commit(tx), "commit")
		} else {
			s.ok(s.db.Rollback(tx), "roll back")
		}
		s.wantStep(undoing("a"), []store.StepState{store.StepAbsent, store.StepDone}[i])
	}
}
