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

// finishes marks m without its step, as an older build or an import of marks does.
func (l *till) finishes(m skald.Message, as store.Outcome) { l.finishesAs(m, as, 0) }

// finishesAs does it with a fingerprint in the mark; 0 means unknown.
func (l *till) finishesAs(m skald.Message, as store.Outcome, print int64) {
	l.t.Helper()
	l.apply(store.Effect{Mark: &store.Mark{Consumer: "stock",
		Identity: store.Identity{Source: m.Source, ID: m.ID}, Outcome: as, Fingerprint: print,
		Code: 7, Result: fmt.Sprintf("%q", "receipt of "+m.ID)}})
}

// settles lets time pass until no message is stored.
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

// A message of a step is parked, and another process marks it without the step. The step changes according
// to the mark.
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
			if as != store.Barred { // otherwise the answer is published again
				l.marked(l.come(placed, purchase{Order: "a"}), as)
			}
			l.come(cancelled, purchase{Order: "a"})
			l.says(want.says)
			l.expect("a", want.effect)
		})
	}
}

// The same for a message with a call that its compensation waits for. If the call took effect, the step is
// done in spite of the mark. If the mark belongs to another message with the same identity, this one is a
// conflict.
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
		// the other process published it
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
			if apart := d.quarantine(store.QuarantineQuery{}); len(apart) != c.conflict {
				t.Errorf("in quarantine are %+v", apart)
			}
		})
	}
}

// A compensation has a call in progress, and another process marks it without the step. The step is
// undone, unless the mark is a rejection and the call had no effect.
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

// A compensation waits for the call that it would undo, and another process marks it without that call.
// The compensation stays until the key of the call is voided.
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

// The step of a parked message may have expired, and another process rejects the message. A step that was
// never done is not undone.
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

// A compensation is parked, and another process marks it without the step. A later message for its step is
// barred, and a dead letter frees its key. If the mark is a rejection, nothing is undone.
func TestParkedCompensationFinishedElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		as    store.Outcome
		first bool // the step is done
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

// A dead letter is barred and frees its key if another process finished its compensation.
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

// settling is a driver with commits of a single step that fail a number of times.
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

// If there is an outage while the step is settled, the store has no partial change. The message stays claimed
// and is released later.
func TestStepFinishedElsewhereBesideAnOutage(t *testing.T) {
	b := &settling{fails: 5}
	l := tillOver(t, nil, func(db store.Driver[tx]) store.Driver[tx] { b.Driver = db; return b })
	l.fail = errors.New("the till is shut")
	l.finishes(l.come(placed, purchase{Order: "a"}), store.Done)
	l.pass(time.Minute)
	l.quiet(l.in)
	l.settles()
	if b.fails > 0 {
		t.Fatalf("%d failures did not happen", b.fails)
	}
	l.stands("a", store.StepDone)
}

// Another process finishes another message with the identity of a parked one. The parked one is a
// conflict, in quarantine, not a duplicate.
func TestParkedMessageWhoseIdentityWasFinishedElsewhere(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Now: w.clock},
		func(context.Context, tx, skald.Received[string]) error { return errors.New("not now") })
	m := w.message("k", "1")
	w.publish(m)
	w.quiet(in)
	w.apply(store.Effect{Mark: &store.Mark{Consumer: "stock",
		Identity: store.Identity{Source: m.Source, ID: m.ID}, Outcome: store.Done, Fingerprint: 42}})
	w.pass(time.Minute)
	w.quiet(in)
	if apart := w.quarantine(store.QuarantineQuery{}); len(apart) != 1 || apart[0].Why != store.Conflict ||
		string(apart[0].Message.Data) != string(m.Data) {
		t.Errorf("in quarantine are %+v", apart)
	}
	if kept := w.kept(); len(kept) != 0 {
		t.Errorf("kept %+v", kept)
	}
}

// The same with a step: the message had no effect, and is barred when it is admitted after its
// compensation.
func TestParkedStepWhoseIdentityWasFinishedElsewhere(t *testing.T) {
	l := newTill(t, nil)
	l.fail = errors.New("the till is shut")
	l.finishesAs(l.come(placed, purchase{Order: "a"}), store.Done, 42)
	l.settles()
	apart := l.quarantine(store.QuarantineQuery{})
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
