package browser

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/status"
	"github.com/skald-go/skald/store/memstore"
)

// stuck is a database whose engine runs the saga of an order that is stuck past its pivot.
func stuck(t *testing.T) *memstore.Store {
	t.Helper()
	does := func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) { return "", nil }
	fails := func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) {
		return "", skald.Permanent(errors.New("no carrier takes <fragile> goods"))
	}
	d := saga.New("shipping", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Do("pack", does, nil, saga.NoEffect()),
		saga.Do("seal", does, nil, saga.Pivot()), saga.Do("carry", fails, nil), saga.Do("tell", does, nil))
	db := memstore.New(nil)
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, d)
	if err != nil {
		t.Fatal(err)
	}
	tx := db.BeginTx()
	ctx := skald.WithCause(t.Context(),
		skald.Message{TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
	if _, err = saga.Bind(e, d).Start(ctx, tx, "order-1042"); err == nil {
		err = tx.Commit()
	}
	for busy := true; busy && err == nil; {
		busy, err = e.Step(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// The page of an order that stands in three services, in both colour schemes: a choreographed saga that is
// overdue and held up, and an orchestrated one that is stuck.
func TestStatus(t *testing.T) {
	s, quiet := broken(t), slog.New(slog.DiscardHandler)
	services := map[string]string{}
	for name, db := range map[string]*memstore.Store{"payments": s.payments, "shipping": stuck(t)} {
		h, err := status.Handler(db, &status.Options{Service: name, Store: "--store @" + name + ".url",
			Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		at := httptest.NewServer(h)
		t.Cleanup(at.Close)
		services[name] = at.URL
	}
	h, err := status.Handler(s.orders, &status.Options{Service: "orders", Services: services, Logger: quiet,
		TraceURL: "https://traces.example/{trace}"})
	if err != nil {
		t.Fatal(err)
	}
	at := httptest.NewServer(h)
	t.Cleanup(at.Close)
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			ctx := browse(t, scheme)
			do(t, ctx, chromedp.Navigate(at.URL+"/order-1042"), chromedp.WaitVisible(chromedp.CSS("main h2")))
			background, err := chromedp.Run(ctx,
				chromedp.Evaluate[string]("getComputedStyle(document.body).backgroundColor"))
			if err != nil || (background == "rgb(18, 22, 28)") != (scheme == "dark") {
				t.Errorf("the background is %s, %v", background, err)
			}
			wide, err := chromedp.Run(ctx,
				chromedp.Evaluate[bool]("document.documentElement.scrollWidth > innerWidth"))
			if err != nil || wide {
				t.Errorf("the page is wider than the window: %v, %v", wide, err)
			}
			said := text(t, ctx)
			for _, part := range []string{"order: running, overdue",
				"It waits for payment.taken or payment.declined after stock.reserved",
				"shipping: running, stuck",
				"carry is stuck after it failed once", "no carrier takes <fragile> goods",
				"skald saga retry --store @shipping.url", "Held up at payments",
				"skald dead redrive --store @payments.url"} {
				if !strings.Contains(said, part) {
					t.Errorf("the page does not say %q: %s", part, said)
				}
			}
			link, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.querySelector('main a').href"))
			if err != nil || link != "https://traces.example/4bf92f3577b34da6a3ce929d0e0e4736" {
				t.Errorf("the trace is at %s, %v", link, err)
			}
			shot(t, ctx, "status-"+scheme)
		})
	}
}
