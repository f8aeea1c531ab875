package console_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// The story of a key finds the step that a participant in another database recorded under the saga's id.
// Entries have milliseconds and a bar, and the graph has a tall form for narrow screens.
func TestStoryOfParticipants(t *testing.T) {
	orders, payments := memstore.New(nil), memstore.New(nil)
	pay := saga.Exec("pay", func(context.Context, *memstore.Tx, saga.Run[string]) error { return nil }, nil,
		saga.Pivot())
	d := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }}, pay)
	e, err := saga.NewEngine(orders, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, d)
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
	for busy := true; busy; {
		if busy, err = e.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	list, err := store.ListSagas(t.Context(), orders, store.SagaQuery{Key: "o-7"})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	keep(t, payments, parkedMessage("m-1", "another")) // makes the consumer known to the console
	apply(t, payments, store.Effect{Step: &store.Step{Consumer: "payment", Saga: list[0].ID, Name: "charge",
		Identity: store.Identity{Source: "/orders", ID: "c-1"}, State: store.StepDone,
		From: []store.StepState{store.StepAbsent}}})
	b := open(t, map[string]console.Source{"orders": console.NewSource(orders),
		"payments": console.NewSource(payments)},
		nil)
	page := b.page("/story?q=o-7")
	for _, part := range []string{"step charge is done", "step pay is done", `<svg class="bar"`,
		"<td class=\"n\">0s</td>"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q: %s", part, page)
		}
	}
	at := b.page("/saga?in=orders&name=order&key=o-7")
	for _, class := range []string{"broad", "tall"} {
		if !strings.Contains(at, `<svg class="`+class+`"`) {
			t.Errorf("no %s picture: %s", class, at)
		}
	}
}

// The overview begins with one line for all services, and lists the longest waits.
func TestOverviewLine(t *testing.T) {
	fine := open(t, of(memstore.New(nil)), nil).page("/")
	if !strings.Contains(fine, "<b>Healthy</b>: all services (1)") || strings.Contains(fine,
		"Waits longest") {
		t.Errorf("%s", fine)
	}
	payments, stock := memstore.New(nil), memstore.New(nil)
	keep(t, payments, parkedMessage("m-1", "k-1"))
	keep(t, stock, dead("m-2", "k-2", failing))
	page := open(t, map[string]console.Source{"orders": console.NewSource(memstore.New(nil)),
		"payments": console.NewSource(payments), "stock": console.NewSource(stock),
		"away": console.NewSource(broken{memstore.New(nil)})}, nil).page("/")
	for _, part := range []string{"<b>Look at 2 of 4 services</b>: stock (", "away (does not answer)",
		"Waits longest",
		"a parked message of payment"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q: %s", part, page)
		}
	}
}
