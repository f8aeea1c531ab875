package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// ExampleDrain tests a service: it does something, drains, and checks the result.
func ExampleDrain() {
	placed := skald.Event[string]{Topic: "orders", Type: "order.placed"}
	packed := skald.Event[string]{Topic: "parcels", Type: "parcel.packed"}
	ctx, db, bus := context.Background(), memstore.New(nil), membroker.New(nil)
	if err := bus.MakeTopics(ctx, 4, "orders", "parcels"); err != nil {
		fmt.Println(err)
		return
	}
	out := outbox.New(db, nil)
	in := inbox.New(db, bus, "warehouse", nil)
	inbox.On(in, placed, func(ctx context.Context, tx *memstore.Tx, m skald.Received[string]) error {
		return out.Write(ctx, tx, packed.New(m.ID, m.Value))
	})
	inbox.On(in, packed, func(_ context.Context, tx *memstore.Tx, m skald.Received[string]) error {
		return tx.Put("sent", m.Value)
	})
	tx := db.BeginTx()
	if err := errors.Join(out.Write(ctx, tx, placed.New("o-1", "tea")), tx.Commit()); err != nil {
		fmt.Println(err)
		return
	}

	err := sagatest.Drain(ctx, relay.New(db, bus, nil), in)
	fmt.Println(db.User()["sent"], err)
	// Output: tea <nil>
}

// draining is a service for the tests of Drain.
type draining struct {
	db  *memstore.Store
	bus *membroker.Broker
	out *outbox.Outbox[*memstore.Tx]
}

func newDraining(t *testing.T) *draining {
	d := &draining{db: memstore.New(nil), bus: membroker.New(nil)}
	if err := d.bus.MakeTopics(t.Context(), 1, "orders"); err != nil {
		t.Fatal(err)
	}
	d.out = outbox.New(d.db, nil)
	return d
}

func (d *draining) say(t *testing.T, text string) {
	t.Helper()
	tx := d.db.BeginTx()
	if err := errors.Join(d.out.Write(t.Context(), tx, ordered().New("k", text)), tx.Commit()); err != nil {
		t.Fatal(err)
	}
}

func ordered() skald.Event[string] { return skald.Event[string]{Topic: "orders", Type: "said"} }

func (d *draining) relay(ttl time.Duration) *relay.Relay {
	return relay.New(d.db, d.bus, &relay.Options{TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
}

func (d *draining) inbox(db store.Driver[*memstore.Tx], o *inbox.Options,
	h func(context.Context, *memstore.Tx, skald.Received[string]) error) *inbox.Inbox[*memstore.Tx] {
	o.Logger = slog.New(slog.DiscardHandler)
	in := inbox.New(db, d.bus, "stock", o)
	inbox.On(in, ordered(), h)
	return in
}

func put(_ context.Context, tx *memstore.Tx, m skald.Received[string]) error {
	return tx.Put("got", m.Value)
}

// TestDrainWaitsForLeasedShards: Drain waits for shards that a relay of another test left leased.
func TestDrainWaitsForLeasedShards(t *testing.T) {
	d := newDraining(t)
	if _, err := d.relay(300 * time.Millisecond).Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.say(t, "1")
	if err := sagatest.Drain(t.Context(), d.relay(0), d.inbox(d.db, &inbox.Options{}, put)); err != nil {
		t.Fatal(err)
	}
	if got := d.db.User()["got"]; got != "1" {
		t.Errorf("%q", got)
	}
}

// TestDrainWithANewRelay: a new relay of the next Drain need not wait for the lease of the last one, and an
// old relay continues.
func TestDrainWithANewRelay(t *testing.T) {
	d := newDraining(t)
	in, old := d.inbox(d.db, &inbox.Options{}, put), d.relay(time.Hour)
	for i, out := range []*relay.Relay{old, d.relay(time.Hour), d.relay(time.Hour), old} {
		said := fmt.Sprint(i)
		d.say(t, said)
		soon, cancel := context.WithTimeout(t.Context(), time.Minute) // normally it never waits
		err := sagatest.Drain(soon, out, in)
		cancel()
		if got := d.db.User()["got"]; err != nil || got != said {
			t.Fatalf("%v, %q instead of %s", err, got, said)
		}
	}
}

// TestDrainWaitsForAnOutageAndForNoRetry: Drain waits for a message that fails transiently and is not
// parked yet. It does not wait for a parked one.
func TestDrainWaitsForAnOutageAndForNoRetry(t *testing.T) {
	d := newDraining(t)
	d.say(t, "1")
	lost := errors.New("the connection is lost")
	away := 2 // a third failure parks the message
	in := d.inbox(d.db, &inbox.Options{Retry: inbox.Retry{InitialInterval: time.Millisecond}},
		func(ctx context.Context, tx *memstore.Tx, m skald.Received[string]) error {
			if away--; away >= 0 {
				return skald.Outage(lost)
			}
			return put(ctx, tx, m)
		})
	out := d.relay(0)
	if err := sagatest.Drain(t.Context(), out, in); err != nil || d.db.User()["got"] != "1" {
		t.Fatalf("%v, %q", err, d.db.User())
	}
	failing := d.inbox(d.db, &inbox.Options{Retry: inbox.Retry{InitialInterval: time.Hour,
		MaxInterval: time.Hour}},
		func(context.Context, *memstore.Tx, skald.Received[string]) error { return errors.New("not yet") })
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.say(t, "2")
	err := sagatest.Drain(t.Context(), out, failing)
	if !errors.Is(err, sagatest.ErrLeft) || !strings.Contains(err.Error(),
		"1 messages are parked for stock") || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("a message that failed is parked: %v", err)
	}
	if err := sagatest.DrainAllowing(t.Context(), sagatest.Parked, out, failing); err != nil ||
		failing.Health().Parked != 1 {
		t.Fatalf("%v, %+v", err, failing.Health())
	}
}

// TestDrainFailsOnLeftMessages: messages without effect fail Drain: after a panic of a handler, without a
// relay, without the topic, or with the id of another message. DrainAllowing allows each of them.
func TestDrainFailsOnLeftMessages(t *testing.T) {
	d := newDraining(t)
	panics := d.inbox(d.db, &inbox.Options{Retry: inbox.Retry{Attempts: 1}},
		func(context.Context, *memstore.Tx, skald.Received[string]) error { panic("oh") })
	left := func(what sagatest.Leftovers, says string, steppers ...skald.Stepper) {
		t.Helper()
		err := sagatest.Drain(t.Context(), steppers...)
		if !errors.Is(err, sagatest.ErrLeft) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
		if err := sagatest.DrainAllowing(t.Context(), what, steppers...); err != nil {
			t.Errorf("where it may: %v", err)
		}
	}
	d.say(t, "1")
	left(sagatest.Rows, "1 rows of the outbox", panics)
	left(sagatest.Dead, "handler panicked: oh", panics, d.relay(0))

	d = newDraining(t)
	in := d.inbox(d.db, &inbox.Options{}, put)
	for _, data := range []string{`"1"`, `"2"`} {
		m := skald.Message{ID: "m-1", Source: "/other", Type: "said", Topic: "orders", Key: []byte("k"),
			Data: []byte(data)}
		if err := d.bus.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	left(sagatest.Quarantined, "1 messages in quarantine for stock", in)
	tx := d.db.BeginTx()
	if err := errors.Join(d.out.Write(t.Context(), tx, skald.Draft{Topic: "nowhere", Type: "said"}),
		tx.Commit()); err != nil {
		t.Fatal(err)
	}
	left(sagatest.Rows|sagatest.Quarantined, "1 rows of the outbox of", d.relay(0), in)
}

// TestDrainTimesOut: a stepper that is never idle is named when the time is over. A permanent error
// ends Drain.
func TestDrainTimesOut(t *testing.T) {
	d := newDraining(t)
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	d.say(t, "1")
	again := d.inbox(d.db, &inbox.Options{},
		func(ctx context.Context, tx *memstore.Tx, m skald.Received[string]) error {
			return d.out.Write(ctx, tx, ordered().New("k", "again"))
		})
	if err := sagatest.Drain(soon, d.relay(0), again); !errors.Is(err, sagatest.ErrNotIdle) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a circle: %v", err)
	}
	d = newDraining(t)
	d.say(t, "1")
	out := d.relay(0)
	if err := sagatest.Drain(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	soon, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	lost := errors.New("the connection is lost")
	away := d.inbox(d.db, &inbox.Options{},
		func(context.Context, *memstore.Tx, skald.Received[string]) error { return skald.Outage(lost) })
	if err := sagatest.Drain(soon, out, away); !errors.Is(err, sagatest.ErrNotIdle) {
		t.Errorf("an outage: %v", err)
	}
	nowhere := inbox.New(d.db, d.bus, "stock", nil)
	inbox.On(nowhere, skald.Event[string]{Topic: "nowhere", Type: "said"}, put)
	if err := sagatest.Drain(t.Context(), nowhere); err == nil || errors.Is(err, sagatest.ErrNotIdle) {
		t.Errorf("no topic: %v", err)
	}
}
