package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// handWritten is a consumer with its own deduplication table. It writes this table in the transaction of the
// effect, and acknowledges after the commit.
type handWritten struct {
	proc *sagatest.Process
	db   *memstore.Store
	bus  broker.Subscriber
	name string

	sub  broker.Subscription
	todo []broker.Delivery
}

func (h *handWritten) Step(ctx context.Context) (bool, error) {
	if h.sub == nil {
		sub, err := h.bus.Subscribe(ctx, broker.Group{Name: "stock", Topics: []string{"orders"},
			Member: h.name})
		if err != nil {
			return false, err
		}
		h.sub = sub
	}
	batch, err := h.sub.Receive(ctx, 1)
	if err != nil {
		return false, err
	}
	for _, gone := range batch.Lost {
		h.todo = slices.DeleteFunc(h.todo, func(d broker.Delivery) bool { return d.Partition == gone.Name })
	}
	h.todo = append(h.todo, batch.Deliveries...)
	if len(h.todo) == 0 {
		return len(batch.Gained)+len(batch.Lost) > 0, nil
	}
	d := h.todo[0]
	tx := h.db.BeginTx()
	known, err := knownByHand(ctx, tx, store.Identity{ID: d.ID}, d.Message)
	if err == nil && !known {
		err = counted(tx, d.ID)
	}
	if err != nil {
		_ = tx.Rollback()
		return true, err
	}
	if err := h.proc.IO("commit by hand", tx.Commit); err != nil {
		return true, err
	}
	h.todo = h.todo[1:]
	return true, h.sub.Ack(ctx, []broker.Delivery{d})
}

func knownByHand(_ context.Context, tx *memstore.Tx, id store.Identity,
	_ skald.Message) (known bool, err error) {
	err = tx.Update("seen "+id.ID, func(_ string, ok bool) string { known = ok; return "yes" })
	return known, err
}

func counted(tx *memstore.Tx, id string) error {
	return tx.Update("did "+id, func(old string, _ bool) string { return old + "x" })
}

// halves returns a world with one group that has a handwritten consumer and an inbox. The inbox refuses the
// messages in refused, and the handwritten consumer handles them.
func halves(beside inbox.LegacyDedupFunc[*memstore.Tx]) func(*sagatest.World) error {
	return func(w *sagatest.World) error {
		ctx := context.Background()
		db := memstore.New(&memstore.Options{Now: w.Now, Wait: time.Millisecond})
		bus := membroker.New(nil)
		if err := bus.MakeTopics(ctx, 2, "orders"); err != nil {
			return err
		}
		var ids []string
		for _, n := range []int{0, 1, 2, 3, 1, 4, 0, 5, 5, 4, 2} { // some are repeated
			id := fmt.Sprint("m-", n)
			m := skald.Message{ID: id, Source: "/other", Topic: "orders", Type: "said", Key: []byte(id),
				Data: []byte(`"x"`)}
			if err := bus.Publish(ctx, []skald.Message{m}).Wait(ctx); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		w.Process("old", func(p *sagatest.Process) error {
			session := db.Session()
			p.OnCrash(session.Kill)
			p.Step(&handWritten{proc: p, db: session, bus: sagatest.CrashBroker(p, bus.Client()),
				name: "old"})
			return nil
		})
		w.Process("new", func(p *sagatest.Process) error {
			session := db.Session()
			p.OnCrash(session.Kill)
			in := inbox.New(sagatest.CrashDriver[*memstore.Tx](p, session),
				sagatest.CrashBroker(p, bus.Client()), "stock", &inbox.Options{
					Instance: inbox.Instance{Member: "new"}, Now: w.Now, NewID: w.NewID,
					Logger: slog.New(slog.DiscardHandler),
					Retry:  inbox.Retry{InitialInterval: time.Millisecond}})
			inbox.On(in, skald.Event[string]{Topic: "orders", Type: "said"},
				func(_ context.Context, tx *memstore.Tx, m skald.Received[string]) error {
					if m.ID == "m-3" {
						return skald.Reject(errors.New("no"))
					}
					return counted(tx, m.ID)
				})
			if beside != nil {
				in.LegacyDedup(beside)
			}
			p.Step(in)
			return nil
		})
		w.Finally("each once", func() error {
			user := db.User()
			for _, id := range ids {
				if did := user["did "+id]; did != "x" && (id != "m-3" || did != "") {
					return fmt.Errorf("%s happened %d times", id, len(did))
				}
				if user["seen "+id] == "" {
					return fmt.Errorf("%s is not in the table", id)
				}
			}
			return nil
		})
		return nil
	}
}

// TestExploreHalfByHandHalfInbox: half of a group is handwritten and half is an inbox, with a fault at any
// I/O of either. Each effect happens once. Without the deduplication across both, or if it only reads, an
// effect happens twice.
func TestExploreHalfByHandHalfInbox(t *testing.T) {
	// After a pause, the other process would wait for a lock in real time.
	modes := []sagatest.Mode{sagatest.CrashBefore, sagatest.CrashAfter, sagatest.ErrorAfter}
	r := sagatest.Explore(t, halves(knownByHand),
		&sagatest.Options{Modes: modes, Pairs: true, Sample: sampled(300)})
	t.Log(r)
	for name, seeded := range map[string]inbox.LegacyDedupFunc[*memstore.Tx]{
		"none": nil,
		"looks only": func(_ context.Context, tx *memstore.Tx, id store.Identity,
			_ skald.Message) (bool, error) {
			_, known := tx.Get("seen " + id.ID)
			return known, nil
		},
	} {
		if r, err := sagatest.Search(t.Context(), halves(seeded),
			&sagatest.Options{Modes: modes}); err != nil || len(r.Failures) == 0 {
			t.Errorf("%s: nothing is found: %v, %v", name, r, err)
		}
	}
}
