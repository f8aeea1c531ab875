package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// finishes marks m as somebody does who knows no steps: a build from before, or an import of marks.
func (l *till) finishes(m skald.Message, as store.Outcome) { l.finishesAs(m, as, 0) }

// finishesAs gives the mark a fingerprint: 0 is not known.
func (l *till) finishesAs(m skald.Message, as store.Outcome, print int64) {
	l.t.Helper()
	l.apply(store.Effect{Mark: &store.Mark{Consumer: "stock",
		Identity: store.Identity{Source: m.Source, ID: m.ID}, As: as, Fingerprint: print,
		Code: 7, Result: fmt.Sprintf("%q", "receipt of "+m.ID)}})
}

// settles lets time go by until nothing is kept any more.
func (l *till) settles() {
	l.t.Helper()
	for range 10 {
		l.pass(time.Minute)
		l.quiet(l.in)
	}
	if kept := l.kept(); len(kept) != 0 {
		l.t.Errorf("kept %+v", kept)
	}
}

// A message of a step is parked, and then finished by somebody who knows no steps: the step becomes what the
// mark says.
func TestStepOfAParkedMessageFinishedElsewhere(t *testing.T) {
	for as, want := range map[store.Outcome]struct {
		step   store.StepState
		says   string
		effect string
	}{
		store.Done:     {store.StepDone, "cancelled: done", "refunded"},
		store.Rejected: {store.StepRejected, "cancelled: rejected", ""},
		store.Barred:   {store.StepBarred, "cancelled: barred", ""},
	} {
		t.Run(as.String(), func(t *testing.T) {
			l := newTill(t, nil)
			l.fail = errors.New("the till is shut")
			l.finishes(l.come(placed, purchase{Order: "a"}), as)
			l.stands("a", store.StepParked)
			l.settles()
			l.stands("a", want.step)
			l.fail = nil
			if as != store.Barred { // else it says so once more
				l.marked(l.come(placed, purchase{Order: "a"}), as)
			}
			l.come(cancelled, purchase{Order: "a"})
			l.says(want.says)
			l.expect("a", want.effect)
		})
	}
}

// The same of one that is at a call, whose compensation waits for it. What the call moves was taken, whatever
// the mark says; and if the mark is of another message under its identity, this one is a conflict.
func TestStepAtACallFinishedElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		as       store.Outcome
		refuses  bool  // the bank
		print    int64 // of the mark
		step     store.StepState
		says     string
		refunds  int
		conflict int
	}{
		"done": {store.Done, false, 0, store.StepUndone, "cancelled: done", 1, 0},
		// whoever marked it did
		"done, moved nothing":     {store.Done, true, 0, store.StepUndone, "cancelled: done", 1, 0},
		"rejected":                {store.Rejected, false, 0, store.StepUndone, "cancelled: done", 1, 0},
		"rejected, moved nothing": {store.Rejected, true, 0, store.StepBarred, "cancelled: rejected", 0, 0},
		"another":                 {store.Done, false, 42, store.StepUndone, "cancelled: done", 1, 1},
		"another, moved nothing":  {store.Done, true, 42, store.StepBarred, "cancelled: rejected", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.bank.moods = []string{"later"}
			if c.refuses {
				d.bank.moods = append(d.bank.moods, "refuse")
			}
			m := d.come(placed, purchase{Order: "a"})
			d.stands("a", store.StepCalling)
			d.finishesAs(m, c.as, c.print)
			d.pass(time.Minute)
			d.quiet(d.in)
			d.publish(d.message(cancelled, "other", purchase{Order: "a"}))
			d.settles()
			d.stands("a", c.step)
			d.says(c.says)
			if got := d.bank.moved["refund-a"]; got != c.refunds {
				t.Errorf("%d refunds, want %d", got, c.refunds)
			}
			if apart := d.quarantine(store.Query{}); len(apart) != c.conflict {
				t.Errorf("in quarantine are %+v", apart)
			}
		})
	}
}

// A compensation is at a call when somebody who knows no steps finishes it: the step is undone, unless the
// mark is a "no" and nothing was moved.
func TestCompensationAtACallFinishedElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		as      store.Outcome
		refuses bool
		print   int64
		want    store.StepState
	}{
		"done":                    {store.Done, false, 0, store.StepUndone},
		"done, moved nothing":     {store.Done, true, 0, store.StepUndone},
		"rejected":                {store.Rejected, false, 0, store.StepUndone},
		"rejected, moved nothing": {store.Rejected, true, 0, store.StepDone},
		"another":                 {store.Done, false, 42, store.StepUndone},
		"another, moved nothing":  {store.Done, true, 42, store.StepDone},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.come(placed, purchase{Order: "a"})
			d.bank.moods = []string{"later"}
			if c.refuses {
				d.bank.moods = append(d.bank.moods, "refuse")
			}
			m := d.come(cancelled, purchase{Order: "a"})
			d.stands("a", store.StepCalling)
			d.finishesAs(m, c.as, c.print)
			d.settles()
			d.stands("a", c.want)
		})
	}
}

// A compensation that waits for the call which it would undo is finished by somebody who knows nothing of
// that call: it is not let go before the key is used up.
func TestCompensationOfACallFinishedElsewhere(t *testing.T) {
	d := newDesk(t)
	d.bank.moods = []string{"later"}
	d.come(placed, purchase{Order: "a"})
	m := d.message(cancelled, "other", purchase{Order: "a"})
	d.holds(m)
	d.finishes(m, store.Done)
	d.pass(10 * time.Second)
	d.quiet(d.in)
	d.settles()
	d.stands("a", store.StepBarred)
	if d.bank.moved["charge-a"] != 0 || !strings.Contains(d.bank.asked(), "cancel charge-a") {
		t.Errorf("moved %v, asked %s", d.bank.moved, d.bank.asked())
	}
}

// Of a step that may have been forgotten a message is held that somebody refused: nothing is undone that was
// never taken.
func TestStepThatIsTooOldFinishedElsewhere(t *testing.T) {
	for as, want := range map[store.Outcome]string{store.Rejected: "cancelled: rejected",
		store.Done: "cancelled: done"} {
		t.Run(as.String(), func(t *testing.T) {
			l := newTill(t, nil)
			began := l.clock()
			l.come(placed, purchase{Order: "old", Begun: began})
			l.forgets()
			m := l.message(placed, "k", purchase{Order: "a", Begun: began})
			l.holds(m)
			l.finishes(m, as)
			l.settles()
			l.come(cancelled, purchase{Order: "a", Begun: began})
			l.says(want)
		})
	}
}

// A compensation is parked when somebody who knows no steps finishes it: what comes late for its step is
// barred, and a dead letter lets its key go. Finished with a "no" it has undone nothing.
func TestParkedCompensationFinishedElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		as    store.Outcome
		first bool // the step is taken
		want  store.StepState
	}{
		"done":                {store.Done, true, store.StepUndone},
		"rejected":            {store.Rejected, true, store.StepDone},
		"done, nothing taken": {store.Done, false, store.StepBarred},
		"rejected, the same":  {store.Rejected, false, store.StepAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTill(t, nil)
			if c.first {
				l.come(placed, purchase{Order: "a"})
			}
			m := l.message(cancelled, "other", purchase{Order: "a"})
			l.holds(m)
			l.finishes(m, c.as)
			l.settles()
			if c.want != store.StepAbsent {
				l.stands("a", c.want)
			} else if steps := l.db.Steps(); len(steps) != 0 {
				t.Errorf("steps %+v", steps)
			}
			if l.says(); c.first {
				l.expect("a", "charged")
			}
		})
	}
}

// A dead letter whose compensation was finished elsewhere is barred, and frees its key.
func TestDeadLetterWhoseCompensationWasFinishedElsewhere(t *testing.T) {
	l := newTill(t, nil)
	l.fail = skald.Permanent(errors.New("the till is broken"))
	l.come(placed, purchase{Order: "a"})
	l.stands("a", store.StepDead)
	m := l.message(cancelled, "other", purchase{Order: "a"})
	l.holds(m)
	l.finishes(m, store.Done)
	l.settles()
	l.stands("a", store.StepBarred)
	l.says("barred")
}

// settling is a driver whose next commits of a step alone fail.
type settling struct {
	store.Driver[tx]
	fails int
}

func (d *settling) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	if len(in.Marks) == 0 && d.fails > 0 {
		d.fails--
		return nil, store.ErrBusy
	}
	return d.Driver.Begin(ctx, in)
}

// What is away while the step is settled settles nothing by halves: the message stays claimed and is let go
// later.
func TestStepFinishedElsewhereBesideAnOutage(t *testing.T) {
	b := &settling{fails: 5}
	l := tillOver(t, nil, func(db store.Driver[tx]) store.Driver[tx] { b.Driver = db; return b })
	l.fail = errors.New("the till is shut")
	l.finishes(l.come(placed, purchase{Order: "a"}), store.Done)
	l.pass(time.Minute)
	l.quiet(l.in)
	l.settles()
	if b.fails > 0 {
		t.Fatalf("%d failures were never met", b.fails)
	}
	l.stands("a", store.StepDone)
}

// Another message under the identity of a parked one is finished by somebody who does not know what is
// parked: the parked one is a conflict, in quarantine, not a repeat.
func TestParkedMessageWhoseIdentityWasFinishedElsewhere(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Now: w.clock},
		func(context.Context, tx, skald.Received[string]) error { return errors.New("not now") })
	m := w.message("k", "1")
	w.publish(m)
	w.quiet(in)
	w.apply(store.Effect{Mark: &store.Mark{Consumer: "stock",
		Identity: store.Identity{Source: m.Source, ID: m.ID}, As: store.Done, Fingerprint: 42}})
	w.pass(time.Minute)
	w.quiet(in)
	if apart := w.quarantine(store.Query{}); len(apart) != 1 || apart[0].Why != store.Conflict ||
		string(apart[0].Message.Data) != string(m.Data) {
		t.Errorf("in quarantine are %+v", apart)
	}
	if kept := w.kept(); len(kept) != 0 {
		t.Errorf("kept %+v", kept)
	}
}

// The same of one of a step: it took nothing, and admitted behind its compensation it is barred.
func TestParkedStepWhoseIdentityWasFinishedElsewhere(t *testing.T) {
	l := newTill(t, nil)
	l.fail = errors.New("the till is shut")
	l.finishesAs(l.come(placed, purchase{Order: "a"}), store.Done, 42)
	l.settles()
	apart := l.quarantine(store.Query{})
	if len(apart) != 1 || apart[0].Why != store.Conflict {
		t.Fatalf("in quarantine are %+v", apart)
	}
	l.come(cancelled, purchase{Order: "a"})
	l.stands("a", store.StepBarred)
	l.admit(apart[0].Number)
	l.settles()
	l.says("cancelled: parked", "barred")
	l.expect("a", "")
}
