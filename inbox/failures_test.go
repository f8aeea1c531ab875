package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/testlog"
	"github.com/skald-go/skald/store"
)

// The tests in this file cover the rows of docs/dev/failures.md that no other test covers.

// A handler that takes too long fails, and its work is rolled back. Its key waits, and the message is
// retried.
func TestHandlerThatTakesTooLong(t *testing.T) {
	w := newWorld(t, 1)
	slow := true
	o := &inbox.Options{Now: w.clock, Timeouts: inbox.Timeouts{Handle: time.Second, Wait: time.Minute}}
	in := w.inbox(o, func(ctx context.Context, tx tx, m skald.Received[string]) error {
		if err := keep(ctx, tx, m); err != nil || !slow || m.Value != "1" {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	w.publish(w.message("k", "1"), w.message("k", "2"), w.message("l", "3"))
	w.quiet(in)
	w.expect("k", "")
	w.expect("l", "3")
	k := w.kept()
	if len(k) != 2 || k[0].Attempts != 1 || !strings.Contains(k[0].Last.Why, failure.ErrTimeout.Error()) ||
		k[1].Attempts != 0 {
		t.Errorf("kept %+v", k)
	}
	slow = false
	w.pass(time.Minute)
	w.quiet(in)
	w.expect("k", "1 2")
}

// floorsRise deletes all marks, as the retention does after some time.
func (w *world) floorsRise(days int) {
	w.t.Helper()
	for range days {
		w.pass(24 * time.Hour)
		if _, err := w.db.Maintain(w.t.Context(), store.Maintain{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A stored message is handled at any age, whether it is parked or a redriven dead letter.
func TestStoredMessageIsNeverTooOld(t *testing.T) {
	w := newWorld(t, 1)
	bad := true
	in := w.inbox(&inbox.Options{Now: w.clock, Retry: inbox.Retry{Age: 1000 * time.Hour},
		Retention: inbox.Retention{Window: inbox.Window{AllowShort: true}}},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			switch {
			case bad && m.Value == "dead":
				return skald.Permanent(errors.New("never"))
			case bad && m.Value == "parked":
				return errors.New("not now")
			}
			return keep(ctx, tx, m)
		})
	dead, parked, done := w.dated("d", "dead", w.now), w.dated("p", "parked", w.now),
		w.dated("k", "done", w.now)
	w.publish(dead, parked, done)
	w.quiet(in)
	w.floorsRise(40)
	bad = false
	w.publish(done)
	w.quiet(in)
	w.apply(store.Effect{Requeue: &store.Requeue{Consumer: "stock",
		Identity: store.Identity{Source: dead.Source, ID: dead.ID}}})
	w.pass(time.Hour)
	w.quiet(in)
	w.expect("d", "dead")
	w.expect("p", "parked")
	w.expect("k", "done")
	if q := w.quarantine(store.QuarantineQuery{}); len(q) != 1 || q[0].ID != done.ID ||
		q[0].Why != store.TooOld ||
		len(w.kept()) != 0 {
		t.Errorf("in quarantine %+v; kept %+v", q, w.kept())
	}
}

// A message with an id without a time cannot be recognized as too old. A duplicate that comes after its
// mark expired is handled again. To prevent that, keep marks for longer, use a natural key, or use UUIDs
// of version 7 as ids.
func TestDuplicateWithoutATimeAfterItsMark(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(func(ctx context.Context, tx tx, m skald.Received[string]) error {
		if _, there := tx.Get("order " + m.Value); there && string(m.Key) == "natural" {
			return nil
		}
		return errors.Join(keep(ctx, tx, m), tx.Put("order "+m.Value, "there"))
	})
	timeless, natural, dated := w.message("timeless", "1"), w.message("natural", "2"),
		w.dated("dated", "3", w.now)
	for range 2 {
		w.publish(timeless, natural, dated)
		w.quiet(in)
		w.floorsRise(40)
	}
	w.expect("timeless", "1 1")
	w.expect("natural", "2")
	w.expect("dated", "3")
	if h := in.Health(); h.TooOld != 1 || h.Duplicates != 0 ||
		len(w.quarantine(store.QuarantineQuery{})) != 1 {
		t.Errorf("%+v", h)
	}
}

// The messages of a batch together take longer than Handle and Wait, but no single one does. The batch is
// rolled back, and each message takes effect once, in order.
func TestBatchThatTakesTooLongTogether(t *testing.T) {
	w := newWorld(t, 1)
	var runs atomic.Int32
	in := w.inbox(&inbox.Options{Workers: 1, Batch: 4,
		Timeouts: inbox.Timeouts{Handle: 2 * time.Second, Wait: 50 * time.Millisecond},
		Retry:    inbox.Retry{InitialInterval: time.Millisecond}},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			if runs.Add(1) <= 2 {
				// of the first batch: the first takes most of the time, the second the rest
				ends, _ := ctx.Deadline()
				if m.Value == "1" {
					var cancel context.CancelFunc
					ctx, cancel = context.WithDeadline(context.WithoutCancel(ctx),
						ends.Add(-500*time.Millisecond))
					defer cancel()
					<-ctx.Done()
				} else {
					<-ctx.Done()
					return ctx.Err()
				}
			}
			return keep(ctx, tx, m)
		})
	for n := range 4 {
		w.publish(w.message("k", fmt.Sprint(n+1)))
	}
	run(t, in)
	until(t, "4 marks", func() bool { return len(w.db.Marks()) == 4 })
	w.expect("k", "1 2 3 4")
	if n := runs.Load(); n < 6 {
		t.Errorf("%d runs: the batch was not rolled back", n)
	}
}

// A compensation with the key of its step's parked message waits for that message, and undoes its work.
func TestCompensationBehindItsParkedStep(t *testing.T) {
	l := newTill(t, &inbox.Options{Retry: inbox.Retry{InitialInterval: time.Minute,
		MaxInterval: time.Minute}})
	l.fail = errors.New("not now")
	l.publish(l.message(placed, "a", purchase{Order: "a"}))
	l.quiet(l.in)
	l.publish(l.message(cancelled, "a", purchase{Order: "a"}))
	l.quiet(l.in)
	l.says()
	l.stands("a", store.StepParked)
	l.fail = nil
	for range 3 {
		l.pass(10 * time.Minute)
		l.quiet(l.in)
	}
	l.expect("a", "charged refunded")
	l.says("cancelled: done")
	if len(l.kept()) != 0 {
		t.Errorf("kept %+v", l.kept())
	}
}

// A compensation has the key of the dead letter that it would undo. It waits behind this dead letter, like
// all messages of the key, and is answered after it.
func TestCompensationBehindItsDeadLetter(t *testing.T) {
	l := newTill(t, nil)
	l.fail = skald.Permanent(errors.New("never"))
	m := l.message(placed, "a", purchase{Order: "a"})
	l.publish(m)
	l.quiet(l.in)
	l.publish(l.message(cancelled, "a", purchase{Order: "a"}))
	l.quiet(l.in)
	l.says()
	l.stands("a", store.StepDead)
	if k := l.kept(); len(k) != 2 || k[0].Dead == nil || !k[0].Dead.BlocksKey || k[1].Dead != nil ||
		!k[1].Waiting {
		t.Fatalf("kept %+v", k)
	}
	l.fail = nil
	l.apply(store.Effect{Requeue: &store.Requeue{Consumer: "stock",
		Identity: store.Identity{Source: m.Source, ID: m.ID}}})
	for range 3 {
		l.pass(time.Minute)
		l.quiet(l.in)
	}
	l.expect("a", "charged refunded")
	l.says("cancelled: done")
	if len(l.kept()) != 0 {
		t.Errorf("kept %+v", l.kept())
	}
}

// deaf is a broker that a test can disconnect.
type deaf struct {
	broker.Subscriber
	out atomic.Bool
}

func (d *deaf) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	s, err := d.Subscriber.Subscribe(ctx, g)
	return &deafSubscription{s, d}, err
}

type deafSubscription struct {
	broker.Subscription
	d *deaf
}

func (s *deafSubscription) Receive(ctx context.Context, most int) (broker.Batch, error) {
	if s.d.out.Load() {
		return broker.Batch{}, errAway
	}
	return s.Subscription.Receive(ctx, most)
}

func (s *deafSubscription) Ack(ctx context.Context, ds []broker.Delivery) error {
	if s.d.out.Load() {
		return errAway
	}
	return s.Subscription.Ack(ctx, ds)
}

// While the broker is unavailable the inbox is not ready, and no failure counts. Afterwards it continues by
// itself.
func TestBrokerThatIsAway(t *testing.T) {
	w := newWorld(t, 1)
	bus := &deaf{Subscriber: w.bus}
	in := inbox.New(w.db, bus, "stock", nil)
	inbox.On(in, said, keep)
	stop := run(t, in)
	w.publish(w.message("k", "1"))
	until(t, "the first", func() bool { return len(w.db.Marks()) == 1 })
	bus.out.Store(true)
	w.publish(w.message("k", "2"))
	until(t, "the inbox is not ready",
		func() bool {
			h := in.Health()
			return h.Live && !h.Ready &&
				strings.Contains(h.Why, errAway.Error())
		})
	bus.out.Store(false)
	until(t, "the second", func() bool { return len(w.db.Marks()) == 2 })
	until(t, "it to be ready", func() bool { return in.Health().Ready })
	w.expect("k", "1 2")
	if h := in.Health(); h.Failures != 0 || h.Parkings != 0 {
		t.Errorf("%+v", h)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// flicker is a broker that is unavailable. Every other Receive returns nothing instead of an error. A driver
// that reads in the background behaves like this: it reports each failed attempt once.
type flicker struct {
	broker.Subscriber
	out      atomic.Bool
	received atomic.Int64
}

type flickerSubscription struct {
	broker.Subscription
	f *flicker
}

func (f *flicker) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	sub, err := f.Subscriber.Subscribe(ctx, g)
	return flickerSubscription{sub, f}, err
}

func (s flickerSubscription) Ready() <-chan struct{} {
	ready := make(chan struct{}, 1)
	ready <- struct{}{}
	return ready
}

func (s flickerSubscription) Receive(ctx context.Context, most int) (broker.Batch, error) {
	switch n := s.f.received.Add(1); {
	case !s.f.out.Load():
		return s.Subscription.Receive(ctx, most)
	case n%2 == 0:
		return broker.Batch{}, errAway
	}
	return broker.Batch{}, nil
}

// An outage of the broker does not end with a Receive without an error. It ends with a delivery, or after
// some time without an error.
func TestBrokerThatBringsNothing(t *testing.T) {
	w := newWorld(t, 1)
	bus := &flicker{Subscriber: w.bus}
	var log testlog.Log
	in := inbox.New(w.db, bus, "stock", &inbox.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	inbox.On(in, said, keep)
	stop := run(t, in)
	w.publish(w.message("k", "1"))
	until(t, "the first", func() bool { return len(w.db.Marks()) == 1 })
	bus.out.Store(true)
	until(t, "the inbox is not ready", func() bool { return !in.Health().Ready })
	from := bus.received.Load()
	until(t, "twenty calls", func() bool {
		if in.Health().Ready {
			t.Error("ready, and the broker is away")
		}
		return bus.received.Load() >= from+20
	})
	if strings.Contains(log.String(), "the broker is back") {
		t.Errorf("the broker is away:\n%s", &log)
	}
	bus.out.Store(false)
	w.publish(w.message("k", "2"))
	until(t, "it to be ready", func() bool { return in.Health().Ready })
	if !strings.Contains(log.String(), "the broker is back") {
		t.Errorf("the log does not have the return of the broker:\n%s", &log)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A handler ignores its context for so long that its transaction may be gone. The handler has failed, even if
// it returns nil. The failure counts, and in the end the message is a dead letter; it is not retried in its
// partition forever.
func TestHandlerThatTakesTooLongAndIgnoresItsContext(t *testing.T) {
	for name, says := range map[string]error{"nothing": nil, "an error": errors.New("no"),
		"a rejection": skald.Reject(errors.New("no"))} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			in := w.inbox(&inbox.Options{Now: w.clock,
				Timeouts: inbox.Timeouts{Handle: 10 * time.Millisecond, Wait: 10 * time.Millisecond},
				Retry:    inbox.Retry{Attempts: 2}},
				func(ctx context.Context, tx tx, m skald.Received[string]) error {
					if err := keep(ctx, tx, m); err != nil || m.Value != "1" {
						return err
					}
					<-ctx.Done()
					<-time.After(50 * time.Millisecond) // an operation that ignores the context
					return says
				})
			w.publish(w.message("k", "1"), w.message("k", "2"))
			for range 6 {
				w.quiet(in)
				w.pass(time.Minute)
			}
			dead := w.dead()
			if len(dead) != 1 || dead[0].Attempts != 2 ||
				!strings.Contains(dead[0].Last.Why, failure.ErrTimeout.Error()) {
				t.Errorf("dead %+v, kept %+v", dead, w.kept())
			}
			w.expect("k", "")
		})
	}
}
