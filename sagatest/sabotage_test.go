package sagatest_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestNoMarkDetectsStoredMessages: without marks a consumer repeats handled messages, but nothing more: a
// repetition of a parked message or a dead letter is not handled in addition. After a redrive it takes
// effect once.
func TestNoMarkDetectsStoredMessages(t *testing.T) {
	for name, fails := range map[string]error{
		"dead":   skald.Permanent(errors.New("no such column")),
		"parked": errors.New("not yet"),
	} {
		t.Run(name, func(t *testing.T) {
			now, bus := time.Now(), membroker.New(nil)
			clock := func() time.Time { return now }
			db := memstore.New(&memstore.Options{Now: clock})
			if err := bus.MakeTopics(t.Context(), 1, "orders"); err != nil {
				t.Fatal(err)
			}
			runs := map[string]int{}
			in := inbox.New(sagatest.NoMark[*memstore.Tx](db), bus, "stock",
				&inbox.Options{Logger: slog.New(slog.DiscardHandler), Now: clock})
			in.Handle("orders", "said", func(_ context.Context, _ *memstore.Tx, m skald.Message) error {
				if runs[m.ID]++; m.ID == "a" {
					return fails
				}
				return nil
			})
			quiet := func() {
				t.Helper()
				for busy := true; busy; {
					var err error
					if busy, err = in.Step(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			say := func(id string) {
				t.Helper()
				m := skald.Message{ID: id, Source: "/other", Topic: "orders", Type: "said", Key: []byte(id),
					Data: []byte(`"` + id + `"`)}
				if err := bus.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				quiet()
			}
			for range 2 {
				say("a")
				say("b")
			}
			if runs["a"] != 1 || runs["b"] != 2 || in.Health().Duplicates != 1 {
				t.Errorf("runs %v, health %+v", runs, in.Health())
			}
			fails = nil
			release := store.Requeue{Consumer: "stock", Identity: store.Identity{Source: "/other", ID: "a"}}
			if stood, err := db.Apply(t.Context(), store.Effect{Requeue: &release}); err != nil || !stood[0] {
				t.Fatal(stood, err)
			}
			now = now.Add(time.Minute)
			quiet()
			kept, err := store.ListParked(t.Context(), db, store.ParkedQuery{Limit: 10})
			if err != nil || len(kept) != 0 || runs["a"] != 2 {
				t.Errorf("runs %v, kept %+v, %v", runs, kept, err)
			}
		})
	}
}
