package flow_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// shipping is a flow in which a payment can be undone, also by an operator, and a parcel cannot be undone.
func shipping(t *testing.T) *flow.Flow {
	t.Helper()
	ask := flow.AskOf(event("taken"), func(m skald.Received[string]) skald.Draft {
		if m.Value == "unlucky" {
			panic("no such customer")
		}
		return event("refund.asked").New(m.Value, strings.Repeat(m.Value, len(m.Headers)+1))
	})
	f, err := flow.New("order", flow.From(event("placed")), flow.Then(event("placed"), event("taken")),
		flow.Then(event("taken"), event("shipped")),
		flow.Then(event("shipped"), event("delivered")),
		flow.Undo(event("taken"), event("refunded"), ask).Within(time.Hour), flow.End(event("delivered")))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCompensate(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testCompensate(t, tracking[*memstore.Tx](memstore.New(nil))) })
	t.Run("sqlite", func(t *testing.T) {
		db, err := sqlitestore.Open(filepath.Join(t.TempDir(), "c.db"))
		if err == nil {
			t.Cleanup(func() { _ = db.Close() })
			_, err = sqlitestore.Migrate(t.Context(), db, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		testCompensate(t, tracking[*sql.Tx](sqlitestore.New(db, nil)))
	})
	t.Run("postgres", func(t *testing.T) {
		pool, schema := onPostgres(t)
		testCompensate(t, tracking[pgx.Tx](pgstore.New(pool, &pgstore.Options{Schema: schema})))
	})
}

// town is a payment service and a tracker that share one database and one broker.
type town[TTx any] struct {
	db      tracking[TTx]
	bus     *membroker.Broker
	tracker *flow.Tracker[TTx]
	n       int
	undos   int
}

func (c *town[TTx]) publish(t *testing.T, name, order string) {
	t.Helper()
	c.n++
	m := skald.Message{ID: fmt.Sprint("c-", c.n), Source: "/shop", Topic: "orders", Type: name,
		Key: []byte(order), CorrelationID: order, Time: time.Now(),
		Data: []byte(`"` + order + `"`), ContentType: "application/json"}
	if err := c.bus.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// settle lets all consumers handle their messages, and the relay publish the resulting messages.
func (c *town[TTx]) settle(t *testing.T) {
	t.Helper()
	order := func(m skald.Received[string]) string { return string(m.Key) }
	for range 3 {
		for _, group := range []string{"payment", "tracker"} {
			in := inbox.New(c.db, c.bus.Client(), group, nil)
			if group == "tracker" {
				c.tracker.On(in)
			} else {
				charge := inbox.NewStep(in, "charge", order)
				inbox.DoOn(charge, event("placed"),
					func(context.Context, TTx, skald.Received[string]) (inbox.Result, error) {
						return inbox.Result{}, nil
					})
				inbox.UndoOn(charge, event("refund.asked"),
					func(_ context.Context, _ TTx, m skald.Received[string], _ inbox.DoneStep) (inbox.Result,
						error) {
						c.undos++
						return inbox.Result{Publish: []skald.Draft{event("refunded").New(string(m.Key),
							m.Value)}}, nil
					})
			}
			for busy, err := true, error(nil); busy; {
				if busy, err = in.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := in.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		c.relay(t)
	}
}

func (c *town[TTx]) relay(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := relay.New(c.db, c.bus.Client(),
		&relay.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for pending := true; pending; {
		b, err := store.ReadBacklog(t.Context(), c.db)
		if err != nil {
			t.Fatal(err)
		}
		pending = b.Pending > 0
	}
	stop()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func (c *town[TTx]) find(t *testing.T, key string) flow.SagaState {
	t.Helper()
	all, err := flow.Find(t.Context(), c.db, key)
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %v, %v", key, all, err)
	}
	return all[0]
}

func testCompensate[TTx any](t *testing.T, db tracking[TTx]) {
	ctx := t.Context()
	c := &town[TTx]{db: db, bus: membroker.New(nil), tracker: flow.NewTracker(shipping(t), db, nil)}
	if err := c.bus.MakeTopics(ctx, 2, "orders"); err != nil {
		t.Fatal(err)
	}
	why := operate.Order{Author: "ada", Reason: "the customer died"}
	for _, order := range []string{"o-1", "o-2", "o-3", "unlucky"} {
		c.publish(t, "placed", order)
	}
	c.settle(t)
	var none *operate.NoMatchError
	if _, err := operate.Compensate(ctx, db, operate.CompensateRequest{Key: "o-1"}, why); !errors.As(err,
		&none) {
		t.Errorf("nothing took effect: %v", err)
	}
	for _, order := range []string{"o-1", "o-2", "o-3", "unlucky"} {
		c.publish(t, "taken", order)
	}
	c.publish(t, "shipped", "o-2")
	c.settle(t)

	dry, err := operate.Compensate(ctx, db, operate.CompensateRequest{Key: "o-1"},
		operate.Order{DryRun: true})
	if s := c.find(t, "o-1"); err != nil || len(dry.Events) != 1 || s.State != flow.Running ||
		len(s.Asked) != 0 {
		t.Fatalf("a dry run: %+v, %v, then %+v", dry, err, s)
	}
	t.Run("rivals", func(t *testing.T) {
		published := make(chan int)
		for range 4 {
			go func() {
				r, err := operate.Compensate(ctx, db, operate.CompensateRequest{Key: "o-1", Flow: "order"},
					why)
				if err != nil {
					t.Error(err)
				}
				published <- len(r.Events)*10 + len(r.Before)
			}()
		}
		if sum := <-published + <-published + <-published + <-published; sum != 13 {
			t.Errorf("four at once: %d, want one that publishes and three that find it asked for", sum)
		}
	})
	s := c.find(t, "o-1")
	if len(s.Asked) != 1 || s.State != flow.Compensating || s.Due == nil ||
		s.Due.Sub(s.Asked[0].At) != time.Hour || s.Waiting[len(s.Waiting)-1].For[0].Type != "refunded" {
		t.Errorf("asked for, and not undone yet: %+v", s)
	}
	c.settle(t)
	if s = c.find(t, "o-1"); len(s.Asked) != 0 || len(s.Undo) != 0 || c.undos != 1 ||
		s.Steps[len(s.Steps)-1].Type != "refunded" ||
		s.State != flow.Compensated || s.Overdue || len(s.Waiting)+len(s.Missing)+len(s.Remaining) > 0 {
		t.Errorf("after %d undos: %+v", c.undos, s)
	}
	c.publish(t, "shipped", "o-1") // after all
	if c.settle(t); c.find(t, "o-1").State != flow.Compensating {
		t.Errorf("a step took effect after the undo: %+v", c.find(t, "o-1"))
	}

	for key, want := range map[string]string{"o-2": "shipped took effect, and the flow declares no undo of it", "unlucky": "no such customer", "": "which saga?"} {
		if r, err := operate.Compensate(ctx, db, operate.CompensateRequest{Key: key}, why); err == nil ||
			!strings.Contains(err.Error(), want) || len(r.Events) > 0 {
			t.Errorf("%s: %v, %+v", key, err, r)
		}
	}
	if s := c.find(t, "unlucky"); len(s.Drift) != 1 || !strings.Contains(s.Drift[0], "cannot be built") {
		t.Errorf("drift %q", s.Drift)
	}
	if _, err := operate.Compensate(ctx, db, operate.CompensateRequest{Key: "o-9"}, why); !errors.As(err,
		&none) {
		t.Errorf("a saga without events: %v", err)
	}

	// The answer to the commit is lost. A repeated call requests no undo twice unless Repeat is set, and the
	// step is undone once.
	if _, err := operate.Compensate(ctx, operate.CompensateStore[TTx](forgetful[TTx]{db}),
		operate.CompensateRequest{Key: "o-3"}, why); err == nil {
		t.Error("the answer to the commit was lost, but there is no error")
	}
	if r, err := operate.Compensate(ctx, db, operate.CompensateRequest{Key: "o-3"}, why); err != nil ||
		len(r.Events) != 0 || len(r.Before) != 1 {
		t.Errorf("a repeat: %+v, %v", r, err)
	}
	if r, err := operate.Compensate(ctx, db, operate.CompensateRequest{Key: "o-3", Repeat: true},
		why); err != nil ||
		len(r.Events) != 1 {
		t.Errorf("once more: %+v, %v", r, err)
	}
	c.settle(t)
	if c.undos != 2 {
		t.Errorf("%d undos of two orders", c.undos)
	}
	if all, err := db.Audits(ctx, store.AuditQuery{}); err != nil || len(all) != 3 ||
		all[0].Action != "compensate order o-3: taken" || all[0].Reason != why.Reason {
		t.Errorf("audits %+v, %v", all, err)
	}
}

// forgetful commits, and then returns an error, as if the answer was lost.
type forgetful[TTx any] struct{ tracking[TTx] }

type forgetfulUnit[TTx any] struct{ store.Unit[TTx] }

func (f forgetful[TTx]) Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error) {
	u, err := f.tracking.Begin(ctx, in)
	return forgetfulUnit[TTx]{u}, err
}

func (f forgetfulUnit[TTx]) Commit(ctx context.Context, es ...store.Effect) error {
	return errors.Join(f.Unit.Commit(ctx, es...), errors.New("connection lost"))
}
