package inbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
)

func keep(_ context.Context, t tx, m skald.Received[string]) error {
	return note(t, string(m.Key), m.Value)
}

func TestEachMessageIsHandledOnce(t *testing.T) {
	w := newWorld(t, 2)
	in := w.stepper(keep)
	a, b := w.message("k", "1"), w.message("k", "2")
	w.publish(a, b, a, b, a)
	w.quiet(in)
	w.publish(b, a)
	w.quiet(in)
	w.expect("k", "1 2")
	if h := in.Health(); h.Handled != 2 || h.Duplicates != 5 || h.Unacknowledged != 0 {
		t.Errorf("health %+v", h)
	}
}

func TestSameIDOfAnotherSourceIsAnotherMessage(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(keep)
	a := w.message("k", "1")
	b := a
	b.Source = "/elsewhere"
	w.publish(a, b)
	w.quiet(in)
	w.expect("k", "1 1")
}

func TestTypesWithoutAHandlerGetNoMark(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(keep)
	other := w.message("k", "x")
	other.Type = "unheard of"
	w.publish(other, w.message("k", "1"))
	w.quiet(in)
	w.expect("k", "1")
	if marks := w.db.Marks(); len(marks) != 1 || in.Health().Skipped != 1 {
		t.Errorf("marks %v, health %+v", marks, in.Health())
	}
}

func TestRejectRollsBackAndPublishes(t *testing.T) {
	w := newWorld(t, 1)
	out := outbox.New(w.db, nil)
	runs := 0
	in := w.stepper(func(ctx context.Context, tx tx, m skald.Received[string]) error {
		runs++
		if err := note(tx, "k", "row of the rejected"); err != nil {
			return err
		}
		if err := out.Write(ctx, tx, skald.Draft{Topic: "orders", Type: "not said"}); err != nil {
			return err
		}
		return skald.Reject(errors.New("out of stock"),
			skald.Event[string]{Topic: "stock", Type: "short"}.New("k", m.Value))
	})
	m := w.message("k", "1")
	m.CorrelationID, m.TraceParent = "whole", "00-trace"
	w.publish(m)
	w.quiet(in)
	w.publish(m)
	w.quiet(in)
	w.expect("k", "")
	rows := w.db.Rows()
	if len(rows) != 1 || rows[0].Type != "short" || rows[0].CausationID != m.ID ||
		rows[0].CorrelationID != "whole" || rows[0].TraceParent != "00-trace" {
		t.Errorf("outbox %+v", rows)
	}
	marks := w.db.Marks()
	if len(marks) != 1 || marks[0].Outcome != store.Rejected || marks[0].Reason != "out of stock" ||
		runs != 1 {
		t.Errorf("%d runs, marks %+v", runs, marks)
	}
}

func TestDraftsOfAHandlerNameTheirCause(t *testing.T) {
	w := newWorld(t, 1)
	out := outbox.New(w.db, nil)
	in := w.stepper(func(ctx context.Context, tx tx, m skald.Received[string]) error {
		return out.Write(ctx, tx, said.New("k", "reply"))
	})
	m := w.message("k", "1")
	w.publish(m)
	w.quiet(in)
	rows := w.db.Rows()
	if len(rows) != 1 || rows[0].CausationID != m.ID || rows[0].CorrelationID != m.ID {
		t.Errorf("outbox %+v", rows)
	}
}

func TestFailureBlocksOnlyItsKey(t *testing.T) {
	w := newWorld(t, 1)
	bad := true
	in := w.stepper(func(ctx context.Context, tx tx, m skald.Received[string]) error {
		if bad && m.Value == "2" {
			return errors.New("no such column")
		}
		return keep(ctx, tx, m)
	})
	w.publish(w.message("k", "1"), w.message("k", "2"), w.message("k", "3"), w.message("l", "a"),
		w.message("", "free"))
	w.quiet(in)
	w.expect("k", "1")
	w.expect("l", "a")
	w.expect("", "free")
	h := in.Health()
	if len(h.Stuck) != 1 || h.Stuck[0].ID != "m-2" || h.Stuck[0].Topic != "orders" ||
		h.Stuck[0].Position != 1 ||
		!strings.Contains(h.Stuck[0].Error, "no such column") || h.Unacknowledged != 0 || h.Parked != 2 {
		t.Errorf("health %+v", h)
	}
	bad = false
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("k", "1 2 3")
	if h := in.Health(); len(h.Stuck) != 0 || h.Parked != 0 || len(w.kept()) != 0 {
		t.Errorf("health %+v", h)
	}
}

func TestFailureIsRetriedWithGrowingPauses(t *testing.T) {
	w := newWorld(t, 1)
	runs := 0
	in := w.stepper(func(context.Context, tx, skald.Received[string]) error {
		runs++
		return errors.New("no")
	})
	w.publish(w.message("k", "1"))
	w.quiet(in)
	for range 100 {
		w.pass(100 * time.Millisecond)
		w.quiet(in)
	}
	if runs < 5 || runs > 9 { // pauses of 0.1 to 0.15 s, doubled: 10 s have the attempts 1 to 7
		t.Errorf("%d runs in 10 s", runs)
	}
	w.pass(45 * time.Second)
	before := runs
	w.quiet(in)
	if runs != before+1 {
		t.Errorf("not tried again after the longest pause: %d runs, then %d", before, runs)
	}
}

func TestRetryAfterWaitsAndIsNoFailure(t *testing.T) {
	w := newWorld(t, 1)
	runs := 0
	in := w.stepper(func(ctx context.Context, tx tx, m skald.Received[string]) error {
		if runs++; runs == 1 {
			if err := note(tx, "k", "undone"); err != nil {
				return err
			}
			return skald.RetryAfter(time.Hour, errors.New("not open yet"))
		}
		return keep(ctx, tx, m)
	})
	w.publish(w.message("k", "1"), w.message("k", "2"))
	w.quiet(in)
	w.pass(59 * time.Minute)
	w.quiet(in)
	w.expect("k", "")
	if h := in.Health(); h.Failures != 0 || len(h.Stuck) != 0 || runs != 1 {
		t.Errorf("%d runs, health %+v", runs, h)
	}
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("k", "1 2")
}

func TestPanicIsAFailureWithItsStack(t *testing.T) {
	w := newWorld(t, 1)
	runs := 0
	in := w.stepper(func(ctx context.Context, tx tx, m skald.Received[string]) error {
		if runs++; runs == 1 {
			panic("nil map")
		}
		return keep(ctx, tx, m)
	})
	w.publish(w.message("k", "1"))
	w.quiet(in)
	if h := in.Health(); len(h.Stuck) != 1 || !strings.Contains(h.Stuck[0].Error, "panicked: nil map") {
		t.Errorf("health %+v", h)
	}
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("k", "1")
}

// The functions that the inbox calls before the handler can panic, too.
func TestPanicOfEntitiesOrSettingsIsAFailure(t *testing.T) {
	w := newWorld(t, 1)
	in := w.over(w.db, &inbox.Options{Now: w.clock,
		Transaction: inbox.Transaction{Entities: func(m skald.Message) []store.Lock {
			if string(m.Key) == "bad" {
				panic("nil map")
			}
			return nil
		}}}, keep)
	w.publish(w.message("bad", "1"), w.message("good", "1"))
	w.quiet(in)
	w.expect("good", "1")
	w.expect("bad", "")
	if h := in.Health(); len(h.Stuck) != 1 || !strings.Contains(h.Stuck[0].Error, "panicked: nil map") {
		t.Errorf("health %+v", h)
	}
}

// A database without settings refuses them with one error.
func TestSettingsWhereThereAreNone(t *testing.T) {
	w := newWorld(t, 1)
	in := w.over(w.db, &inbox.Options{Now: w.clock,
		Transaction: inbox.Transaction{Settings: func(skald.Message) []store.Setting {
			return []store.Setting{{Name: "app.tenant", Value: "42"}}
		}}}, keep)
	w.publish(w.message("k", "1"))
	for err := error(nil); ; {
		if _, err = in.Step(t.Context()); err != nil {
			if !errors.Is(err, store.ErrNoSettings) || !store.Incurable(err) {
				t.Error(err)
			}
			break
		}
	}
	w.expect("k", "")
}

func TestUnreadableMessagesAreDeadLettersImmediately(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(keep)
	foreign := w.message("k", "1")
	foreign.ID = ""
	broken := w.message("l", "1")
	broken.Data = []byte("{")
	w.publish(foreign, w.message("k", "2"), broken, w.message("l", "2"), w.message("m", "a"))
	w.quiet(in)
	w.expect("k", "")
	w.expect("l", "")
	w.expect("m", "a")
	if h := in.Health(); h.Dead != 2 || h.Parked != 2 || h.Unacknowledged != 0 {
		t.Errorf("health %+v", h)
	}
	for _, p := range w.dead() {
		if p.Dead.Kind != "malformed" || !strings.Contains(p.Last.Why, inbox.ErrNoID.Error()) &&
			!strings.Contains(p.Last.Why, "as JSON") {
			t.Errorf("dead letter %+v of %+v", p.Dead, p.Last)
		}
	}
	w.publish(foreign, broken) // again, at another position: without an id it is not a duplicate
	w.quiet(in)
	if n := len(w.dead()); n != 3 {
		t.Errorf("%d dead letters", n)
	}
	if len(w.db.Marks()) != 1 {
		t.Errorf("marks %v", w.db.Marks())
	}
}

// A payload that the codec cannot read is not retried, for each kind of registration.
func TestPayloadThatCannotBeReadIsMalformedInEachForm(t *testing.T) {
	for form, tell := range map[string]func(*inbox.Inbox[tx]){
		"On": func(in *inbox.Inbox[tx]) { inbox.On(in, said, keep) },
		"OnResult": func(in *inbox.Inbox[tx]) {
			inbox.OnResult(in, said,
				func(context.Context, tx, skald.Received[string]) (inbox.Result,
					error) {
					return inbox.Result{}, nil
				})
		},
		"OnBatch": func(in *inbox.Inbox[tx]) {
			inbox.OnBatch(in, said, func(context.Context, tx, []skald.Received[string]) error { return nil })
		},
	} {
		t.Run(form, func(t *testing.T) {
			w := newWorld(t, 1)
			in := w.stepper(keep)
			tell(in)
			broken := w.message("k", "1")
			broken.Data = []byte("{")
			w.publish(broken)
			w.quiet(in)
			if dead := w.dead(); len(dead) != 1 || dead[0].Dead.Kind != "malformed" {
				t.Errorf("dead letters: %+v", dead)
			}
		})
	}
}

func TestFullPartitionPausesAtTheBrokerAndResumes(t *testing.T) {
	w := newWorld(t, 1)
	bad := true
	in := w.inbox(&inbox.Options{Now: w.clock, Limits: inbox.Limits{Unacknowledged: 10}},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			if bad && string(m.Key) == "k" {
				return skald.Outage(errors.New("a service is away"))
			}
			return keep(ctx, tx, m)
		})
	w.publish(w.message("k", "1"))
	w.quiet(in)
	for range 20 {
		w.publish(w.message("l", "a"))
		w.quiet(in)
	}
	if h := in.Health(); len(h.Paused) != 1 || h.Unacknowledged != 10 {
		t.Errorf("health %+v", h)
	}
	bad = false
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("k", "1")
	w.expect("l", strings.TrimSpace(strings.Repeat("a ", 20)))
	if h := in.Health(); len(h.Paused) != 0 || h.Unacknowledged != 0 {
		t.Errorf("health %+v", h)
	}
}

func TestPartitionFullOfLargeMessagesPausesToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	bad := true
	in := w.stepper(func(ctx context.Context, tx tx, m skald.Received[string]) error {
		if bad {
			return skald.Outage(errors.New("a service is away"))
		}
		return note(tx, string(m.Key), "x")
	})
	for range 40 {
		w.publish(w.message("k", strings.Repeat("x", 890<<10)))
		w.quiet(in)
	}
	if h := in.Health(); len(h.Paused) != 1 || h.Unacknowledged > 19 {
		t.Errorf("paused %v with %d unacknowledged", h.Paused, h.Unacknowledged)
	}
	bad = false
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("k", strings.TrimSpace(strings.Repeat("x ", 40)))
}
