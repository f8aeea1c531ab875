package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// If a handler returns RetryNow, the inbox calls it again immediately, in a new transaction. No failure
// counts.
func TestOvertakenHandlerIsCalledAgainImmediately(t *testing.T) {
	w := newWorld(t, 1)
	runs := 0
	in := w.stepper(func(_ context.Context, t tx, m skald.Received[string]) error {
		if runs++; runs <= 16 {
			return errors.Join(note(t, "done", "too early"),
				fmt.Errorf("update: %w", skald.RetryNow(errors.New("the version moved"))))
		}
		return note(t, "done", m.Value)
	})
	w.publish(w.message("k", "1"))
	w.quiet(in)
	w.expect("done", "1")
	if h := in.Health(); runs != 17 || h.Failures != 0 || h.Handled != 1 || len(w.kept()) != 0 {
		t.Errorf("%d runs: %+v", runs, h)
	}
}

// A handler that always returns RetryNow fails like any other handler. Its message is parked, its failures
// count, and in the end it becomes a dead letter. A parked message has the same outcome.
func TestHandlerThatIsAlwaysOvertakenFails(t *testing.T) {
	w := newWorld(t, 1)
	runs := 0
	in := w.inbox(&inbox.Options{Now: w.clock, Retry: inbox.Retry{Attempts: 2}},
		func(context.Context, tx, skald.Received[string]) error {
			runs++
			return skald.RetryNow(errors.New("the version moved"))
		})
	w.publish(w.message("k", "1"))
	w.quiet(in)
	if kept := w.kept(); runs != 17 || len(kept) != 1 || kept[0].Attempts != 1 || kept[0].Dead != nil {
		t.Fatalf("%d runs, kept: %+v", runs, kept)
	}
	w.pass(w.kept()[0].Due + 1e9)
	w.quiet(in)
	if dead := w.dead(); runs != 34 || len(dead) != 1 || dead[0].Attempts != 2 {
		t.Errorf("%d runs, dead: %+v", runs, dead)
	}
}

// The token of an entity grows with each commit, is the same again after a rollback, and is 0 for an
// entity without a lock.
func TestFence(t *testing.T) {
	w := newWorld(t, 1)
	var seen []int64
	in := w.inbox(&inbox.Options{Now: w.clock,
		Transaction: inbox.Transaction{Entities: func(m skald.Message) []store.Lock {
			return []store.Lock{{Space: "order", Key: "7"}, {Space: "customer", Key: m.ID}}
		}}}, func(ctx context.Context, _ tx, m skald.Received[string]) error {
		if inbox.Fence(ctx, "customer", m.ID) != 1 || inbox.Fence(ctx, "order", "8") != 0 ||
			inbox.Fence(context.Background(), "order", "7") != 0 {
			t.Error("the token of another entity")
		}
		if seen = append(seen, inbox.Fence(ctx, "order", "7")); len(seen) == 2 {
			return skald.RetryNow(errors.New("once more"))
		}
		return nil
	})
	w.publish(w.message("k", "1"), w.message("k", "2"), w.message("k", "3"))
	w.quiet(in)
	if fmt.Sprint(seen) != "[1 2 2 3]" {
		t.Errorf("the tokens were %v", seen)
	}
}

// A courier takes a parcel and needs much time for the delivery, outside of any transaction. Meanwhile the
// order changes. The courier compares the token stored with the parcel, and detects the change.
func ExampleFence() {
	db, bus := memstore.New(nil), membroker.New(nil)
	ctx := context.Background()
	said := skald.Event[string]{Topic: "orders", Type: "said"}
	if err := bus.MakeTopics(ctx, 1, said.Topic); err != nil {
		fmt.Println(err)
	}
	in := inbox.New(db, bus, "shipping", &inbox.Options{
		Transaction: inbox.Transaction{Entities: func(m skald.Message) []store.Lock {
			return []store.Lock{{Space: "order", Key: string(m.Key)}}
		}},
		Logger: slog.New(slog.DiscardHandler),
	})
	inbox.On(in, said, func(ctx context.Context, tx *memstore.Tx, m skald.Received[string]) error {
		return tx.Put("parcel", fmt.Sprint(inbox.Fence(ctx, "order", string(m.Key))))
	})
	hear := func(id, what string) {
		m := skald.Message{ID: id, Source: "/shop", Topic: said.Topic, Type: said.Type, Key: []byte("7"),
			Data: fmt.Appendf(nil, "%q", what)}
		err := bus.Publish(ctx, []skald.Message{m}).Wait(ctx)
		for busy := true; busy && err == nil; {
			busy, err = in.Step(ctx)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	hear("1", "placed")
	taken := db.User()["parcel"]
	hear("2", "changed")
	// in SQL: UPDATE parcels SET delivered = true WHERE id = 7 AND fence = 1
	fmt.Println("delivered:", db.User()["parcel"] == taken)
	// Output: delivered: false
}

// If many messages wait for locked entities, other messages still get workers. This is true for one entity
// and for one entity per message.
func TestEntityInUseLeavesWorkersToOthers(t *testing.T) {
	one := func(skald.Message) string { return "0" }
	each := func(m skald.Message) string { return string(m.Key) }
	for name, of := range map[string]func(skald.Message) string{"one": one, "each": each} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.db = memstore.New(nil) // with the real clock
			const held, free = 24, 30
			var locks []store.Lock
			for i := range held {
				locks = append(locks, store.Lock{Space: "held", Key: fmt.Sprint(i)})
			}
			rival, err := w.db.Session().Begin(t.Context(), store.Intake{Locks: locks})
			if err != nil {
				t.Fatal(err)
			}
			var ran, early atomic.Int64
			released := make(chan struct{})
			in := w.inbox(&inbox.Options{Workers: 8, Timeouts: inbox.Timeouts{Wait: time.Minute},
				Transaction: inbox.Transaction{Entities: func(m skald.Message) []store.Lock {
					if string(m.Data) == `"held"` {
						return []store.Lock{{Space: "held", Key: of(m)}}
					}
					return nil
				}}}, func(_ context.Context, _ tx, m skald.Received[string]) error {
				select {
				case <-released:
				default:
					if m.Value == "held" {
						early.Add(1)
					}
				}
				ran.Add(1)
				return nil
			})
			for i := range held {
				w.publish(w.message(fmt.Sprint(i), "held"))
			}
			for i := range free {
				w.publish(w.message(fmt.Sprintf("free %d", i), "free"))
			}
			stop := run(t, in)
			untilFor(t, 20*time.Second, "the others are handled", func() bool { return ran.Load() == free })
			close(released)
			if err := rival.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			until(t, "the messages that waited are handled", func() bool { return ran.Load() == free+held })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if h := in.Health(); early.Load() != 0 || h.Failures != 0 || h.Parkings != 0 {
				t.Errorf("%d ran next to the rival: %+v", early.Load(), h)
			}
		})
	}
}
