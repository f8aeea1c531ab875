package place_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/examples/shop/wire"
	"github.com/skald-go/skald/internal/need"
)

const (
	enough = 5  // payments that each phase waits for
	atOnce = 16 // orders in progress at a time
)

// payment.taken gets payment_method while customers order: first its writer is rolled, with old consumers
// alive, then its consumers; then the writer is rolled back, and forth again. Each payment has its effects
// once, and each consumer sees the method where it knows of one.
func TestRollPaymentMethod(t *testing.T) {
	t.Parallel()
	for _, language := range []wire.Language{wire.Avro, wire.Protobuf} {
		t.Run(string(language), func(t *testing.T) {
			t.Parallel() // it mostly waits for Kafka to move partitions
			kafka, prefix := need.Kafka(t), "shop"+strings.ToLower(rand.Text()[:10])
			removeTopics(t, kafka, event.New(prefix).Topics())
			newRoll(t, language, database(t), "kafka://"+kafka, prefix).run()
		})
	}
}

// roll is a shop whose builds change while it works.
type roll struct {
	*shop
	bus      *place.Bus
	prefix   string
	language wire.Language
	registry *sr.Client
	v1       string // the headers that the old build writes
	wanted   []sample.Order
}

// paid order is what the databases say of one.
type paid struct {
	v2     bool   // the new build wrote payment.taken
	counts int    // rows in Analytics
	method string // the method that Analytics recorded
	state  string // the state of the order
}

func newRoll(t *testing.T, language wire.Language, store, broker, prefix string) *roll {
	t.Helper()
	registry := srfake.New()
	t.Cleanup(registry.Close)
	r := &roll{shop: &shop{t: t}, prefix: prefix, language: language, wanted: sample.Orders(1, 10_000)}
	var err error
	if r.registry, err = sr.NewClient(sr.URLs(registry.URL())); err == nil {
		r.place, err = place.Open(store, prefix)
	}
	if err == nil {
		r.bus, err = place.OpenBus(broker)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.bus.Close(); err != nil {
			t.Error(err)
		}
		if err := r.place.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *roll) run() {
	taking := []string{"order", "inventory", "analytics"} // subscribers of payment.taken
	var oldConsumers []func()
	for _, name := range taking {
		oldConsumers = append(oldConsumers, r.start(name, "old"))
	}
	oldWriter := r.start("payment", "old")
	r.start("fulfilment", "only")
	r.start("notification", "only")
	goHome := r.customers()
	r.until("old builds alone", nil, func(p paid) bool { return !p.v2 && p.state == "confirmed" })

	newWriter := r.start("payment", "new")
	oldWriter()
	seen := r.until("a new writer, old consumers", nil,
		func(p paid) bool { return p.v2 && p.state == "confirmed" && p.counts == 1 })
	for id, p := range seen {
		if p.method != "" {
			r.t.Errorf("order %s: an old consumer saw the method %q", id, p.method)
		}
	}

	for _, name := range taking {
		r.start(name, "new")
	}
	for _, leave := range oldConsumers {
		leave()
	}
	r.until("new builds", r.look(),
		func(p paid) bool { return p.v2 && p.method == "card" && p.state == "confirmed" })

	oldWriter = r.start("payment", "old") // rolled back
	newWriter()
	r.until("an old writer, new consumers", r.look(),
		func(p paid) bool { return !p.v2 && p.method == "unknown" && p.state == "confirmed" })
	r.start("payment", "new")
	oldWriter()
	seen = r.look()
	r.until("new builds alone", seen,
		func(p paid) bool { return p.v2 && p.method == "card" && p.state == "confirmed" })
	goHome()
	r.settled(seen)
}

// start starts an instance of a service, and returns what stops it.
func (r *roll) start(name, instance string) (stop func()) {
	r.t.Helper()
	client, err := r.bus.Connect(name + instance)
	o := &service.Options{Prefix: r.prefix, Instance: instance,
		Payments: wire.Form{Language: r.language, First: instance == "old", Registry: r.registry}}
	o.Inbox.Logger, o.Relay.Logger = slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler)
	if err == nil {
		err = place.MakeTopics(r.t.Context(), client, event.New(r.prefix), 0)
	}
	if err == nil {
		err = r.place.Prepare(r.t.Context(), name)
	}
	var one place.Service
	if err == nil {
		one, err = r.place.Service(r.t.Context(), name, client, o)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if h := one.HTTP(); h != nil && r.orders == nil {
		r.orders = h
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- skald.Run(ctx, one.Runners()...) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("%s %s: %v", instance, name, err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

// underWay is how many orders have not ended.
func (r *roll) underWay(orders table.DB) (n int) {
	const sql = "SELECT COUNT(*) FROM /*schema*/orders WHERE state NOT IN ('confirmed', 'cancelled')"
	if err := orders.QueryRow(context.Background(), sql).Scan(&n); err != nil {
		r.t.Error(err)
	}
	return n
}

// customers order until they are sent home, as fast as the shop keeps up with.
func (r *roll) customers() (goHome func()) {
	r.t.Helper()
	orders := r.read()["order"]
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if r.underWay(orders) < atOnce {
				r.ask(r.wanted[0])
				r.wanted = r.wanted[1:]
				continue
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	goHome = sync.OnceFunc(func() { cancel(); <-done })
	r.t.Cleanup(goHome)
	return goHome
}

// ask sends an order, and again if it may.
func (r *roll) ask(o sample.Order) {
	body, err := json.Marshal(o.Request)
	code, reply := http.StatusServiceUnavailable, ""
	for err == nil && code == http.StatusServiceUnavailable {
		ask, w := httptest.NewRequest(http.MethodPost, "/orders", bytes.NewReader(body)),
			httptest.NewRecorder()
		ask.Header.Set("Idempotency-Key", o.Key)
		r.orders.ServeHTTP(w, ask)
		code, reply = w.Code, w.Body.String()
	}
	if err != nil || code != http.StatusCreated {
		r.t.Errorf("an order is answered by %d: %s: %v", code, reply, err)
	}
}

func (r *roll) read() map[string]table.DB {
	r.t.Helper()
	dbs, err := r.place.Read(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return dbs
}

// look reads what became of all payments. Who is told of a payment comes before who tells.
func (r *roll) look() map[string]paid {
	r.t.Helper()
	dbs, out := r.read(), map[string]paid{}
	each := func(service, sql string, one func(p *paid, text string)) {
		err := table.All(r.t.Context(), dbs[service], sql, nil, func(row table.Row) error {
			var id, text string
			err := row.Scan(&id, &text)
			p := out[id]
			one(&p, text)
			out[id] = p
			return err
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
	states := map[string]string{}
	err := table.All(r.t.Context(), dbs["order"], "SELECT id, state FROM /*schema*/orders", nil,
		func(row table.Row) error {
			var id, state string
			err := row.Scan(&id, &state)
			states[id] = state
			return err
		})
	if err != nil {
		r.t.Fatal(err)
	}
	each("analytics", "SELECT order_id, method FROM /*schema*/payment_methods",
		func(p *paid, text string) { p.method, p.counts = text, p.counts+1 })
	const taken = "SELECT key, CAST(headers AS TEXT) FROM /*schema*/skald_outbox WHERE type = 'payment.taken' ORDER BY seq"
	each("payment", taken, func(p *paid, text string) {
		if r.v1 == "" {
			r.v1 = text
		}
		p.v2 = text != r.v1
	})
	for id, p := range out {
		p.state = states[id]
		out[id] = p
	}
	return out
}

// until waits until there are enough payments of a kind, besides those that were there.
func (r *roll) until(what string, there map[string]paid, kind func(paid) bool) map[string]paid {
	r.t.Helper()
	for end := time.Now().Add(most); ; <-time.After(20 * time.Millisecond) {
		all, n := r.look(), 0
		for id, p := range all {
			if _, old := there[id]; !old && kind(p) {
				n++
			}
		}
		if n >= enough {
			return all
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s: %d of %d payments: %+v", what, n, enough, all)
		}
	}
}

// settled: all orders end, nothing is parked, and the databases say of each payment what they should. Those
// that were not there when the old writer went are of the new one.
func (r *roll) settled(there map[string]paid) {
	r.t.Helper()
	for end := time.Now().Add(most); !r.ended(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("the orders do not end: %+v", r.audit())
		}
	}
	for _, i := range r.audit() {
		if !i.OK {
			r.t.Errorf("%s: %s", i.Name, i.Detail)
		}
	}
	for name, db := range r.read() {
		var parked int
		if name == place.Bank || name == place.Post {
			continue
		}
		if err := db.QueryRow(r.t.Context(),
			"SELECT COUNT(*) FROM /*schema*/skald_parked").Scan(&parked); err != nil || parked > 0 {
			r.t.Errorf("%s: %d messages are parked or dead: %v", name, parked, err)
		}
	}
	for id, p := range r.look() {
		new := map[bool]string{false: "unknown", true: "card"}[p.v2]
		if _, old := there[id]; p.counts != 1 || p.method != new && (p.method != "" || !old) ||
			!p.v2 && !old {
			r.t.Errorf("order %s: %+v", id, p)
		}
	}
}
