package console_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// engine runs a saga whose last step fails while the table is gone.
type engine struct {
	*testing.T
	*saga.Engine[*memstore.Tx]
	of   *saga.Definition[string]
	db   *memstore.Store
	gone bool
}

func newEngine(t *testing.T, n int) *engine {
	t.Helper()
	e := &engine{T: t, db: memstore.New(nil), gone: true}
	reserve := saga.Do("reserve",
		func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) { return "reserved", nil },
		func(context.Context, *memstore.Tx, saga.Run[string], string) error { return nil }, saga.Pivot())
	ship := saga.Do("ship", func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) {
		if e.gone {
			return "", skald.Permanent(errors.New("the table is gone"))
		}
		return "shipped", nil
	}, nil)
	e.of = saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }}, reserve, ship)
	var err error
	if e.Engine, err = saga.NewEngine(e.db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)},
		e.of); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		e.begin(fmt.Sprint("o-", i))
	}
	e.work()
	return e
}

func (e *engine) begin(key string) {
	e.Helper()
	tx := e.db.BeginTx()
	if _, err := saga.Bind(e.Engine, e.of).Start(e.Context(), tx, key); err != nil {
		e.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		e.Fatal(err)
	}
}

func (e *engine) work() {
	e.Helper()
	for {
		switch busy, err := e.Step(e.Context()); {
		case err != nil:
			e.Fatal(err)
		case !busy:
			return
		}
	}
}

func (e *engine) count(s operate.SagaSelection) int {
	e.Helper()
	list, err := operate.Sagas(e.Context(), e.db, s)
	if err != nil {
		e.Fatal(err)
	}
	return len(list)
}

// A run retries all sagas that match the filter, and reports its progress. Another console can continue it
// from its row.
func TestRetryManySagas(t *testing.T) {
	e := newEngine(t, 5)
	b := open(t, of(e.db), nil)
	list := b.page("/sagas?stuck=1")
	const query = "in=orders&many=1&stuck=1&verb=saga-retry"
	if !strings.Contains(list, unescapedHref("/ops/act?"+query)) ||
		strings.Contains(b.page("/sagas"), "all that match the filter") {
		t.Fatalf("%s", list)
	}
	page := b.page("/act?" + query)
	if !strings.Contains(page, "it would change <b>5</b> of 5 sagas") ||
		!strings.Contains(page, "skald saga retry --store @orders.url --stuck --reason") ||
		!strings.Contains(page, "the table is gone") {
		t.Fatalf("%s", page)
	}
	none := b.page("/act?in=orders&many=1&stuck=1&verb=saga-cancel") // each is past its pivot
	if !strings.Contains(none, "it would change <b>0</b> of 5 sagas") ||
		!strings.Contains(none, "it is too late to turn back") ||
		strings.Contains(none, "<button class=\"go\">") {
		t.Errorf("%s", none)
	}
	if list := b.page("/sagas?stuck=0&older=0d"); !strings.Contains(list, `name="stuck" value="1">`) ||
		!strings.Contains(list, "o-4") {
		t.Errorf("%s", list)
	}
	if list := b.page("/sagas?status=done"); strings.Contains(list, "all that match the filter") {
		t.Errorf("%s", list)
	}
	if page := b.page("/saga?in=orders&name=order&key=o-0"); strings.Contains(page, "verb=saga-cancel") ||
		!strings.Contains(page, "skald saga retry --store @orders.url --step ship") {
		t.Errorf("%s", page)
	}
	late := b.form(page, "/act")
	late.Set("reason", "more than were seen")
	e.begin("o-5")
	e.work()
	if w := b.do(http.MethodPost, "/act", late); w.Code != http.StatusConflict ||
		e.count(operate.SagaSelection{Stuck: true}) != 6 {
		t.Fatalf("more than were seen: %d: %s", w.Code, w.Body)
	}
	e.gone = false
	w := b.act(query)
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	at := strings.TrimPrefix(w.Header().Get("Location"), "/ops")
	b.until(at, "Ended: 6 of 6 sagas")
	e.work()
	if n := e.count(operate.SagaSelection{Status: "done"}); n != 6 {
		t.Errorf("%d are done", n)
	}
	if all := audits(t, e.db); len(all) != 8 {
		t.Errorf("%q", all)
	}
	if page := b.page("/audit"); !strings.Contains(page,
		`href="/ops/saga?in=orders&amp;key=o-0&amp;name=order"`) {
		t.Errorf("%s", page)
	}
	if runs := b.page("/runs"); !strings.Contains(runs, "saga retry") {
		t.Errorf("%s", runs)
	}
}

// A run that its console did not finish continues in another one, and changes no saga twice.
func TestGoOnWithManySagas(t *testing.T) {
	e := newEngine(t, 4)
	o := operate.Order{Author: "ann", Reason: "the table is back", Run: "console-1"}
	c := operate.SagaChange{Verb: operate.PauseSaga}
	run := operate.NewSagaRun("console-1", operate.SagaSelection{Name: "order"}, c, 4, o)
	if err := operate.BeginRun(t.Context(), e.db, run); err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // the console ends here; ann resumes one by hand
		if _, err := operate.ChangeSagas(t.Context(), e.db, operate.SagaSelection{Key: fmt.Sprint("o-", i)},
			c, o); err != nil {
			t.Fatal(err)
		}
	}
	hand := operate.Order{Author: "ann", Reason: "this one may go on"}
	if _, err := operate.ChangeSagas(t.Context(), e.db, operate.SagaSelection{Key: "o-0"},
		operate.SagaChange{Verb: operate.ResumeSaga}, hand); err != nil {
		t.Fatal(err)
	}
	b := open(t, of(e.db), nil)
	const at = "/run?in=orders&run=console-1"
	page := b.page(at)
	if !strings.Contains(page, "<b>3 of 4</b> sagas changed") ||
		!strings.Contains(page, "This console is not running it") {
		t.Fatalf("%s", page)
	}
	e.begin("later")
	if w := b.do(http.MethodPost, "/run/resume", b.form(page, "/run/resume")); w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	b.until(at, "Ended: 4 of 4 sagas")
	if list, err := operate.Sagas(t.Context(), e.db, operate.SagaSelection{Paused: true}); err != nil ||
		len(list) != 3 || list[0].Key != "o-1" {
		t.Errorf("paused are %+v, %v", list, err)
	}
	if r, err := operate.ReadRun(t.Context(), e.db, "console-1"); err != nil || r.Done != 4 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Choreographed sagas are compensated by filter; a repeat requests nothing twice.
func TestCompensateMany(t *testing.T) {
	db := placed(t)
	b := open(t, of(db), nil)
	const query = "flow=order&in=orders&many=1&overdue=1&verb=compensate"
	if page := b.page("/flows?flow=order&overdue=1"); !strings.Contains(page,
		unescapedHref("/ops/act?"+query)) {
		t.Fatalf("%s", page)
	}
	for _, outcome := range []string{"Ended: 1 of 1 sagas", "Ended: 1 of 1 sagas"} {
		w := b.act(query)
		if w.Code != http.StatusSeeOther {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		b.until(strings.TrimPrefix(w.Header().Get("Location"), "/ops"), outcome)
	}
	if status, err := db.Status(t.Context(), store.StatusQuery{Outbox: true}); err != nil ||
		status.Outbox.Pending != 1 {
		t.Errorf("%+v, %v", status, err)
	}
}

// until requests the page of a run until it contains part.
func (b browser) until(path, part string) {
	b.Helper()
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(b.page(path), part); {
		if time.Now().After(end) {
			b.Fatalf("no %q: %s", part, b.page(path))
		}
	}
}

// A definition is drawn, and an older version is compared with the newest.
func TestDefinitions(t *testing.T) {
	e := newEngine(t, 1)
	b := open(t, of(e.db), nil)
	var was struct {
		Sources []struct{ Definitions []operate.Definition }
	}
	b.get("/definitions", &was)
	if len(was.Sources) != 1 || len(was.Sources[0].Definitions) != 1 ||
		strings.Join(was.Sources[0].Definitions[0].Steps, " ") != "reserve ship" {
		t.Fatalf("%+v", was)
	}
	old := was.Sources[0].Definitions[0].Hash
	newer := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Do("reserve",
			func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) { return "", nil },
			func(context.Context, *memstore.Tx, saga.Run[string], string) error { return nil }, saga.Pivot()),
		saga.Do("send <b>",
			func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) { return "", nil }, nil))
	two, err := saga.NewEngine(e.db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, newer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	page := b.page("/definition?in=orders&name=order&hash=" + url.QueryEscape(old))
	for _, part := range []string{"<svg ", "the newest version", "stay with the older build",
		"send &lt;b&gt;"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q: %s", part, page)
		}
	}
	if w := b.do(http.MethodGet, "/definition?in=orders&name=order&hash=none",
		nil); w.Code != http.StatusNotFound {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// A dead letter with an external call shows how to settle it; an answered call is not listed.
func TestUnknownCalls(t *testing.T) {
	db := memstore.New(nil)
	p, known := dead("d-0", "k-0", failing), dead("d-1", "k-1", failing)
	p.Call, known.Call = &store.Call{Key: "pay <1>", Request: "{}"},
		&store.Call{Key: "pay-2", Request: "{}", Outcome: "{}"}
	keep(t, db, p, known, parkedMessage("p-1", "k-1"))
	b := open(t, of(db), nil)
	page := b.page("/calls")
	for _, part := range []string{"pay &lt;1&gt;",
		"skald dead redrive --store @orders.url --consumer payment", "--call refused --reason"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q: %s", part, page)
		}
	}
	if strings.Contains(page, "pay-2") || strings.Contains(page, "p-1") {
		t.Errorf("what is known, or is no call: %s", page)
	}
}

// The page shows the outbox by shards, and the doctor's findings with their remedies.
func TestOutboxAndDoctor(t *testing.T) {
	b := open(t, of(placed(t)), nil)
	if page := b.page("/outbox"); !strings.Contains(page, "<b class=\"late\">none</b>") ||
		!strings.Contains(page, "the oldest waits") {
		t.Errorf("%s", page)
	}
	if page := b.page("/doctor?in=orders"); !strings.Contains(page, "skald doctor --store @orders.url") ||
		!strings.Contains(page, "<td>relay</td>") {
		t.Errorf("%s", page)
	}
	if w := b.do(http.MethodGet, "/doctor", nil); w.Code != http.StatusBadRequest {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// The story of a key includes its orchestrated saga.
func TestStoryOfAnEngine(t *testing.T) {
	e := newEngine(t, 1)
	b := open(t, map[string]console.Source{"orders": console.NewSource(e.db)}, nil)
	page := b.page("/story?q=o-0")
	for _, part := range []string{"an engine of orders, changed", "stuck</span>",
		"step ship is stuck: permanent: the table is gone", "/ops/saga?",
		"Step <b>ship</b> is stuck, and waits for an operator: permanent: the table is gone",
		"verb=saga-retry", "skald saga retry --reason"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q: %s", part, page)
		}
	}
}

// tally counts reads: each part of a query is one.
type tally struct {
	*memstore.Store
	n *int
}

func (c tally) List(ctx context.Context, l store.List) (store.Listed, error) {
	*c.n++
	return c.Store.List(ctx, l)
}

func (c tally) Status(ctx context.Context, q store.StatusQuery) (store.Status, error) {
	for _, is := range []bool{q.Backlog, q.ParkedOf != "", q.Unhandled, q.Retention, q.Outbox, q.Sagas} {
		if is {
			*c.n++
		}
	}
	return c.Store.Status(ctx, q)
}

// A page sends at most five queries to a source.
func TestFewReads(t *testing.T) {
	e, n := newEngine(t, 3), 0
	b := open(t, map[string]console.Source{"orders": console.NewSource(tally{e.db, &n})}, nil)
	for _, path := range []string{"/", "/sagas?stuck=1", "/flows", "/calls", "/outbox", "/definitions",
		"/act?in=orders&many=1&stuck=1&verb=saga-retry"} {
		n = 0
		if b.page(path); n == 0 || n > 5 {
			t.Errorf("%s asks %d times", path, n)
		}
	}
}
