package console_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

// A stuck saga is found from the list, and retried: its engine goes on.
func TestStuckSaga(t *testing.T) {
	broken := true
	reserve := saga.Do("reserve", func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) { return "secret <1>", nil },
		func(context.Context, *memstore.Tx, saga.Run[string], string) error { return nil }, saga.Pivot())
	ship := saga.Do("ship", func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) {
		if broken {
			return "", skald.Permanent(errors.New("the <b>table</b> is gone"))
		}
		return "shipped", nil
	}, nil)
	d := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }}, reserve, ship)
	db := memstore.New(nil)
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, d)
	if err != nil {
		t.Fatal(err)
	}
	step := func() {
		for busy := true; busy; {
			if busy, err = e.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	tx := db.BeginTx()
	if _, err := saga.Start(t.Context(), e, tx, d, "o-<1>"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	step()
	b := open(t, of(db), nil)
	list := b.page("/sagas?stuck=1")
	for _, part := range []string{"stuck</b>", "key=o-%3C1%3E", "the &lt;b&gt;table&lt;/b&gt; is gone"} {
		if !strings.Contains(list, part) {
			t.Errorf("no %q: %s", part, list)
		}
	}
	at := "in=orders&key=" + url.QueryEscape("o-<1>") + "&name=order"
	page := b.page("/saga?" + at)
	if !strings.Contains(page, "<svg ") || strings.Contains(page, "secret") || !strings.Contains(page, "verb=saga-retry") {
		t.Errorf("%s", page)
	}
	w := b.do(http.MethodPost, "/saga/data", b.form(page, "/saga/data"))
	if !strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "<1>") || len(audits(t, db)) != 1 {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	undone := b.page("/act?" + at + "&step=ship&verb=saga-complete") // what it puts out is said in the form
	if !strings.Contains(undone, "output, as JSON") || !strings.Contains(undone, "skald saga complete --store @orders.url --step ship --data") {
		t.Errorf("%s", undone)
	}
	empty := b.form(undone, "/act")
	empty.Set("reason", "it went")
	if w := b.do(http.MethodPost, "/act", empty); !strings.Contains(w.Body.String(), "no data was given") {
		t.Errorf("without an output: %d: %s", w.Code, w.Body)
	}
	late := b.form(b.page("/act?"+at+"&step=ship&verb=saga-skip"), "/act")
	broken = false
	if w := b.act(at + "&step=ship&verb=saga-retry"); w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	step()
	if page := b.page("/saga?" + at); !strings.Contains(page, "<h2>done") {
		t.Errorf("%s", page)
	}
	late.Set("reason", "nobody needs it")
	if w := b.do(http.MethodPost, "/act", late); w.Code != http.StatusConflict {
		t.Errorf("another operator, late: %d: %s", w.Code, w.Body)
	}
	if w := b.do(http.MethodGet, "/saga?in=orders&name=order&key=nobody", nil); w.Code != http.StatusNotFound {
		t.Errorf("%d", w.Code)
	}
	reader := open(t, of(db), &console.Options{Who: func(*http.Request) (console.Who, error) { return console.Who{Name: "ann", May: console.View}, nil }})
	if page := reader.page("/saga?" + at); strings.Contains(page, "Show them") || strings.Contains(page, "/act?") {
		t.Errorf("%s", page)
	}
}
