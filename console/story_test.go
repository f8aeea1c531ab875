package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

func happened(name string) skald.Event[string] {
	return skald.Event[string]{Topic: "orders", Type: name}
}

// placed returns a database in which the saga o-1 waits for a payment.
func placed(t *testing.T) *memstore.Store {
	t.Helper()
	return placedAs(t, flow.AskOf(happened("stock.reserved"),
		func(skald.Received[string]) skald.Draft { return happened("order.cancelled").New("k <1>", "o-1") }))
}

func placedAs(t *testing.T, asks ...flow.Ask) *memstore.Store {
	t.Helper()
	f, err := flow.New("order", flow.From(happened("order.placed")),
		flow.Then(happened("order.placed"), happened("stock.reserved")),
		flow.Then(happened("stock.reserved"), happened("payment.taken"),
			happened("payment.declined")).Within(time.Minute), flow.Fail(happened("payment.declined")),
		flow.Then(happened("payment.declined"), happened("order.cancelled")),
		flow.Undo(happened("stock.reserved"), happened("stock.released"), asks...),
		flow.End(happened("payment.taken"), happened("order.cancelled")))
	if err != nil {
		t.Fatal(err)
	}
	db := memstore.New(nil)
	tracker := flow.NewTracker(f, db, &flow.Options{Key: func(m skald.Message) string { return m.Subject }})
	for i, typ := range []string{"order.placed", "stock.reserved"} {
		tx := db.BeginTx()
		err := tracker.Handle(t.Context(), tx,
			[]skald.Message{{ID: "m-" + typ, Source: "/shop", Topic: "orders", Type: typ, Subject: "o-1",
				Key: []byte("k <1>"), ContentType: "application/json",
				Data: []byte(`"o-1"`), Time: time.Now().Add(time.Duration(i-60) * time.Minute).UTC()}})
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// The story of one order in three databases: its state, the message that blocks it, and the verb that
// unblocks it.
func TestStory(t *testing.T) {
	orders, payments, stock := placed(t), memstore.New(nil), memstore.New(nil)
	keep(t, payments, parkedMessage("m-9", "k <1>"), parkedMessage("m-10", "another"))
	keep(t, stock, dead("m-11", "k <1>", failing))
	apply(t, stock, store.Effect{Quarantine: &store.Quarantined{Consumer: "stock",
		Identity: store.Identity{Source: "/shop", ID: "m-12"}, Why: store.Conflict,
		Message: skald.Message{ID: "m-12", Source: "/shop", Type: "order.placed", Key: []byte("k <1>")}}})
	b := open(t, map[string]console.Source{"orders": console.NewSource(orders),
		"payments": console.NewSource(payments).WithFlags("--store @payments.url"),
		"stock":    console.NewSource(stock),
		"away":     console.NewSource(broken{memstore.New(nil)})}, nil)
	page := b.page("/story?q=o-1")
	for _, part := range []string{"<h2>order: running", "overdue",
		"It waits for <b>payment.taken or payment.declined</b> after stock.reserved", "<svg ",
		"Held up at payments", "Held up at stock",
		"skald parked release --store @payments.url --consumer payment --source /shop --reason &#39;why&#39; -- m-9", "In quarantine at stock", "order.placed came",
		"order.placed became a dead letter: attempts", "<b>away</b> is unavailable",
		"A failure undoes: <b>stock.reserved</b>"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q", part)
		}
	}
	if strings.Contains(page, "m-10") || strings.Contains(page, "<1>") {
		t.Error("what is of another key, or is not escaped")
	}
	if t.Failed() {
		t.Log(page)
	}
	row := skald.Message{ID: "w-1", Topic: "orders", Type: "order.paid", Key: []byte("k <1>"),
		Data: []byte("{}"), ContentType: "application/json"}
	apply(t, stock, store.Effect{Rows: []skald.Message{row}})
	for _, asked := range []string{"o-1", "w-1", "k <1>"} {
		if page := b.page("/story?q=" + url.QueryEscape(asked)); !strings.Contains(page,
			"<b>Not published at stock</b>: order.paid <code>w-1</code>") {
			t.Errorf("%s: %s", asked, page)
		}
	}
	if page := b.page("/story?q=c-another"); !strings.Contains(page, "id=m-10") {
		t.Errorf("by correlation: %s", page)
	}
	if page := b.page("/story?q=nobody"); !strings.Contains(page,
		"Nothing found in the sources") {
		t.Errorf("%s", page)
	}
	flows := b.page("/flows?overdue=1")
	if !strings.Contains(flows, "payment.taken or payment.declined") ||
		!strings.Contains(flows, "overdue</b>") || !strings.Contains(flows, `name="overdue" value="1"`) {
		t.Errorf("%s", flows)
	}
	if page := b.page("/flows?state=done"); strings.Contains(page, "o-1") {
		t.Errorf("%s", page)
	}
}

// A saga is compensated from its page, once, by the events of its flow.
func TestCompensate(t *testing.T) {
	db := placed(t)
	b := open(t, of(db), nil)
	const query = "flow=order&in=orders&key=o-1&verb=compensate"
	if page := b.page("/story?q=o-1"); !strings.Contains(page, unescapedHref("/ops/act?"+query)) {
		t.Fatalf("%s", page)
	}
	if page := b.page("/act?" + query); !strings.Contains(page,
		"the undo of <b>stock.reserved</b> is requested") ||
		!strings.Contains(page, "skald compensate --store @orders.url --flow order") {
		t.Fatalf("%s", page)
	}
	form := b.form(b.page("/act?"+query), "/act")
	if w := b.act(query); w.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	status, err := db.Status(t.Context(), store.StatusQuery{Outbox: true})
	if err != nil || status.Outbox.Pending != 1 {
		t.Errorf("%+v, %v", status, err)
	}
	if page := b.page("/audit"); !strings.Contains(page, `href="/ops/story?q=o-1"`) {
		t.Errorf("%s", page)
	}
	form.Set("reason", "again")
	if w := b.do(http.MethodPost, "/act", form); w.Code != http.StatusConflict {
		t.Errorf("a second one: %d: %s", w.Code, w.Body)
	}
}

// A saga whose undo cannot be requested has no button for it, and the page gives the reason.
func TestStoryWithoutAsk(t *testing.T) {
	for _, c := range []struct {
		db   *memstore.Store
		says string
	}{{placed(t), "Compensate …"}, {placedAs(t),
		"It cannot be compensated from here: stock.reserved: the tracker has no event that requests its undo"}} {
		page := open(t, of(c.db), nil).page("/story?q=o-1")
		if !strings.Contains(page, c.says) ||
			strings.Contains(page, "Compensate …") != (c.says == "Compensate …") {
			t.Errorf("no %q: %s", c.says, page)
		}
	}
}

// The link to a key's story works for any key: with spaces at its ends, or bytes that are not text.
func TestStoryOfStrangeKeys(t *testing.T) {
	db := memstore.New(nil)
	keep(t, db, parkedMessage("m-1", " k "), parkedMessage("base64:no", "k-2"),
		parkedMessage("m-3", "\x00\xff"))
	b := open(t, of(db), nil)
	for q, id := range map[string]string{"%20k%20": "m-1", "base64:no": "base64:no", "base64:AP8%3D": "m-3",
		"%20base64:no%20": "base64:no"} {
		if page := b.page("/story?q=" + q); !strings.Contains(page,
			"id="+strings.ReplaceAll(id, ":", "%3A")) {
			t.Errorf("%s does not find %s: %s", q, id, page)
		}
	}
}

// The page waits for an unavailable source only once.
func TestStoryAsksOnce(t *testing.T) {
	gone := &gone{Driver: memstore.New(nil)}
	b := open(t, map[string]console.Source{"orders": console.NewSource(kept(t, 1)),
		"gone": console.NewSource(gone)}, nil)
	page := b.page("/story?q=k-0")
	if !strings.Contains(page, "<b>gone</b> is unavailable") || strings.Count(page, "is unavailable") != 1 ||
		!strings.Contains(page, "id=d-0") || gone.status.Load() > 0 {
		t.Errorf("asked %d times after it was away: %s", gone.status.Load(), page)
	}
}

// gone store cannot list anything; its figures can be read.
type gone struct {
	store.Driver[*memstore.Tx]
	status atomic.Int64
}

func (*gone) List(context.Context, store.List) (store.Listed, error) {
	return store.Listed{}, errors.New("no answer")
}

func (g *gone) Status(ctx context.Context, q store.StatusQuery) (store.Status, error) {
	g.status.Add(1)
	return g.Driver.Status(ctx, q)
}
