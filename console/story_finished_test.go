package console_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// counted counts calls of List.
type counted struct {
	store.Driver[*memstore.Tx]
	lists *atomic.Int64
}

func (c counted) List(ctx context.Context, l store.List) (store.Listed, error) {
	c.lists.Add(1)
	return c.Driver.List(ctx, l)
}

// The story of a key has messages that were published and handled without a failure, by time, also those
// with the correlation of the saga. It needs as many queries for many consumers as for one.
func TestStoryOfFinishedMessages(t *testing.T) {
	orders, mails, bus := memstore.New(nil), memstore.New(nil), membroker.New(nil)
	if err := bus.MakeTopics(t.Context(), 1, "orders"); err != nil {
		t.Fatal(err)
	}
	out := outbox.New(orders, nil)
	placed, shipped := happened("order.placed"), happened("order.shipped")
	quiet := slog.New(slog.DiscardHandler)
	tx := orders.BeginTx()
	if err := out.Write(t.Context(), tx, placed.New("o-1", "o-1"), shipped.New("o-1", "o-1"),
		placed.New("o-2", "o-2")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	steppers := []skald.Stepper{relay.New(orders, bus, &relay.Options{Logger: quiet})}
	const consumers = 12
	for n := range consumers {
		in := inbox.New(mails, bus, fmt.Sprintf("mail-%d", n), &inbox.Options{Logger: quiet})
		inbox.On(in, placed, func(context.Context, *memstore.Tx, skald.Received[string]) error { return nil })
		inbox.On(in, shipped, func(context.Context, *memstore.Tx, skald.Received[string]) error {
			return skald.Reject(fmt.Errorf("no address"))
		})
		steppers = append(steppers, in)
	}
	if err := sagatest.Drain(t.Context(), steppers...); err != nil {
		t.Fatal(err)
	}
	var lists atomic.Int64
	b := open(t, map[string]console.Source{"orders": console.NewSource(orders),
		"mails": console.NewSource(counted{mails, &lists})}, nil)
	page := b.page("/story?q=o-1")
	for _, part := range []string{"order.placed was written and published", "order.placed was handled",
		"order.shipped was rejected: no address", "mail-0", "mail-11"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q: %s", part, page)
		}
	}
	if n := strings.Count(page, "order.placed was handled"); n != consumers {
		t.Errorf("%d consumers handled it", n)
	}
	if n := lists.Load(); n > 10 {
		t.Errorf("%d lists of one source with %d consumers", n, consumers)
	}
	var story struct {
		Sources []struct {
			Source   string
			Finished []struct {
				Consumer, Outcome string
				At                time.Time
			}
		}
	}
	b.get("/story?q=o-1", &story)
	for _, s := range story.Sources {
		if want := map[string]int{"mails": 2 * consumers}[s.Source]; len(s.Finished) != want {
			t.Errorf("%s has %d finished messages, want %d", s.Source, len(s.Finished), want)
		}
	}
}

// A message of another key belongs to the story through the correlation of the key's saga.
func TestStoryOfASagasCorrelation(t *testing.T) {
	orders, stock := memstore.New(nil), memstore.New(nil)
	d := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Exec("pay", func(context.Context, *memstore.Tx, saga.Run[string]) error { return nil }, nil,
			saga.Pivot()))
	e, err := saga.NewEngine(orders, nil, d)
	if err != nil {
		t.Fatal(err)
	}
	tx := orders.BeginTx()
	if _, err := saga.Bind(e, d).Start(t.Context(), tx, "o-7"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	list, err := store.ListSagas(t.Context(), orders, store.SagaQuery{Key: "o-7"})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	apply(t, stock, store.Effect{Rows: []skald.Message{{ID: "r-1", Topic: "replies", Type: "seat.reserved",
		Key: []byte("seat-4"), CorrelationID: "saga:order:o-7:" + list[0].ID, ContentType: "application/json",
		Data: []byte("{}"), Time: time.Now()}}})
	b := open(t, map[string]console.Source{"orders": console.NewSource(orders),
		"stock": console.NewSource(stock)}, nil)
	if page := b.page("/story?q=o-7"); !strings.Contains(page,
		"seat.reserved was written, and is not published yet") {
		t.Errorf("%s", page)
	}
}
