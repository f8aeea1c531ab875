package console_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// The operator finds a stuck saga in the list and retries it: its engine continues.
func TestStuckSaga(t *testing.T) {
	broken, stuck := true, false
	reserve := saga.Do("reserve",
		func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) { return "secret <1>", nil },
		func(context.Context, *memstore.Tx, saga.Run[string], string) error { return nil }, saga.Pivot())
	ship := saga.Do("ship", func(_ context.Context, _ *memstore.Tx, r saga.Run[string]) (string, error) {
		if broken && r.Attempt == 1 {
			return "", errors.New("the <i>disk</i> is full")
		}
		if stuck = broken; broken {
			return "", skald.Permanent(errors.New("the <b>table</b> is gone"))
		}
		return "shipped", nil
	}, nil, saga.Retry(saga.Policy{InitialInterval: time.Millisecond}))
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
	if _, err := saga.Bind(e, d).Start(t.Context(), tx, "o-<1>"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for !stuck {
		step()
	}
	b := open(t, of(db), nil)
	list := b.page("/sagas?stuck=1")
	for _, part := range []string{"stuck</b>", "key=o-%3C1%3E", "the &lt;b&gt;table&lt;/b&gt; is gone"} {
		if !strings.Contains(list, part) {
			t.Errorf("no %q: %s", part, list)
		}
	}
	at := "in=orders&key=" + url.QueryEscape("o-<1>") + "&name=order"
	page := b.page("/saga?" + at)
	if !strings.Contains(page, "<svg ") || strings.Contains(page, "secret") ||
		!strings.Contains(page, "verb=saga-retry") {
		t.Errorf("%s", page)
	}
	w := b.do(http.MethodPost, "/saga/data", b.form(page, "/saga/data"))
	if !strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "<1>") ||
		len(audits(t, db)) != 1 {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	undone := b.page("/act?" + at + "&step=ship&verb=saga-complete") // the form asks for its output
	if !strings.Contains(undone, "output, as JSON") ||
		!strings.Contains(undone, "skald saga complete --store @orders.url --step ship --data") {
		t.Errorf("%s", undone)
	}
	empty := b.form(undone, "/act")
	empty.Set("reason", "it went")
	if w := b.do(http.MethodPost, "/act", empty); !strings.Contains(w.Body.String(), "no data was given") {
		t.Errorf("without an output: %d: %s", w.Code, w.Body)
	}
	story := b.page("/story?q=" + url.QueryEscape("o-<1>"))
	for _, failed := range []string{"the &lt;i&gt;disk&lt;/i&gt; is full",
		"the &lt;b&gt;table&lt;/b&gt; is gone"} {
		if !strings.Contains(page, "</time></td><td class=\"why\">"+failed) &&
			!strings.Contains(page, "</time></td><td class=\"why\">permanent: "+failed) {
			t.Errorf("the saga has no attempt that failed with %q: %s", failed, page)
		}
		if !strings.Contains(story, "step ship failed: "+failed) &&
			!strings.Contains(story, "step ship failed: permanent: "+failed) {
			t.Errorf("the story has no attempt that failed with %q: %s", failed, story)
		}
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
	if w := b.do(http.MethodGet, "/saga?in=orders&name=order&key=nobody",
		nil); w.Code != http.StatusNotFound {
		t.Errorf("%d", w.Code)
	}
	reader := open(t, of(db),
		&console.Options{User: func(*http.Request) (console.User, error) {
			return console.User{Name: "ann", May: console.View}, nil
		}})
	if page := reader.page("/saga?" + at); strings.Contains(page, "Show them") ||
		strings.Contains(page, "/act?") {
		t.Errorf("%s", page)
	}
}

// scant store scans few sagas per call.
type scant struct{ *memstore.Store }

func (s scant) List(ctx context.Context, l store.List) (store.Listed, error) {
	if l.Sagas != nil && l.Sagas.Scan > 0 {
		l.Sagas.Scan = 60
	}
	return s.Store.List(ctx, l)
}

// Each saga is on one page of a list, and further pages follow a page without a match.
func TestPagesOfSagas(t *testing.T) {
	e := newEngine(t, 130)
	whole, few := open(t, of(e.db), nil),
		open(t, map[string]console.Source{"orders": console.NewSource(scant{e.db})}, nil)
	type answer struct {
		Sources []struct {
			Sagas   []struct{ Key string }
			More    bool
			Next    string
			Scanned int
		}
	}
	for _, c := range []struct {
		b                   browser
		query               string
		found, pages, first int
	}{
		{whole, "stuck=1", 130, 2, 100},
		{whole, "name=order&step=ship", 130, 2, 100},
		{few, "stuck=1&error=nothing", 0, 3, 0},
		{few, "stuck=1&step=ship", 130, 3, 60},
	} {
		seen, pages := map[string]bool{}, 0
		for after := ""; pages == 0 || after != ""; pages++ {
			var got answer
			path := "/sagas?" + c.query + "&after=" + after
			c.b.get(path, &got)
			part := got.Sources[0]
			for _, s := range part.Sagas {
				seen[s.Key] = true
			}
			if pages == 0 && (len(part.Sagas) != c.first || part.Scanned > 0 != (c.first < 100)) {
				t.Errorf("%s: the first page has %d, after %d looked at", path, len(part.Sagas), part.Scanned)
			}
			if html := c.b.page(path); strings.Contains(html, "The next ones") != (part.Next != "") ||
				part.Next != "" && !strings.Contains(html, "after="+part.Next) {
				t.Errorf("%s: next %q, and the page: %s", path, part.Next, html)
			}
			after = part.Next
		}
		if len(seen) != c.found || pages != c.pages {
			t.Errorf("%s: %d sagas on %d pages, want %d on %d", c.query, len(seen), pages, c.found, c.pages)
		}
	}
	// not a reference, one that is too long, one with a negative length
	for _, bad := range []string{"x", "OTk5IGE", "LTEgYQ"} {
		if got := whole.do("GET", "/sagas?after="+bad, nil); got.Code != http.StatusBadRequest {
			t.Errorf("after %s: %d", bad, got.Code)
		}
	}
}
