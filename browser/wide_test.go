package browser

import (
	"context"
	"log/slog"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

// A graph of eight steps fits the screen of a desk and of a phone, with its pivot.
func TestEightSteps(t *testing.T) {
	s := shop{orders: memstore.New(nil), payments: memstore.New(nil), stock: memstore.New(nil)}
	var steps []saga.StepOf[string]
	nothing := func(context.Context, *memstore.Tx, saga.Run[string]) error { return nil }
	undo := nothing // nil after the pivot
	for _, name := range []string{"create", "reserve-seat", "check-credit", "charge", "provision", "approve",
		"activate", "send-welcome"} {
		var opts []saga.Option
		if name == "charge" {
			opts, undo = append(opts, saga.Pivot()), nil
		}
		steps = append(steps, saga.Exec(name, nothing, undo, opts...))
	}
	d := saga.New("subscription", &saga.Options[string]{Key: func(s string) string { return s }}, steps...)
	e, err := saga.NewEngine(s.orders, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, d)
	if err != nil {
		t.Fatal(err)
	}
	tx := s.orders.BeginTx()
	if _, err := saga.Bind(e, d).Start(t.Context(), tx, "s-1"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	step(t, e)
	ctx, at := browse(t, "light"), serve(t, s)
	for _, c := range []struct {
		wide  int64
		shown string
	}{{1300, "broad"}, {360, "tall"}} {
		do(t, ctx, chromedp.EmulateViewport(c.wide, 900),
			chromedp.Navigate(at+"/saga?in=orders&name=subscription&key=s-1"),
			chromedp.WaitVisible(chromedp.CSS(".picture svg."+c.shown)))
		shot(t, ctx, "eight-"+c.shown)
		fits, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`
			(() => { const p = document.querySelector('.picture'), all = [...p.querySelectorAll('svg.`+c.shown+` rect')];
				return all.length === 8 && all.some((r) => r.getAttribute('stroke-width') === '3') &&
					all.every((r) => r.getBoundingClientRect().right <= innerWidth) &&
					document.documentElement.scrollWidth <= innerWidth })()`))
		if err != nil || !fits {
			t.Errorf("at %d pixels: %v, %v", c.wide, fits, err)
		}
	}
}
