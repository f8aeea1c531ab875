package service_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// late is a broker that delays the messages of one topic for one group while held is set.
type late struct {
	broker.Broker
	group, topic string
	held         bool
}

func (b *late) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	sub, err := b.Broker.Subscribe(ctx, g)
	if err != nil || g.Name != b.group {
		return sub, err
	}
	return &behind{Subscription: sub, b: b}, nil
}

type behind struct {
	broker.Subscription
	b    *late
	kept []broker.Delivery
}

func (s *behind) Receive(ctx context.Context, max int) (broker.Batch, error) {
	batch, err := s.Subscription.Receive(ctx, max)
	all := append(s.kept, batch.Deliveries...)
	s.kept, batch.Deliveries = nil, nil
	for _, d := range all {
		if s.b.held && d.Topic == s.b.topic {
			s.kept = append(s.kept, d)
			continue
		}
		batch.Deliveries = append(batch.Deliveries, d)
	}
	return batch, err
}

// ask sends a request to the Order service.
func (s *shop) ask(method, path, body string, into any) {
	s.t.Helper()
	r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
	r.Header.Set("Idempotency-Key", strconv.Quote(body))
	if s.all["order"].HTTP().ServeHTTP(w, r); w.Code >= 300 {
		s.t.Fatalf("%s %s: %d: %s", method, path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		s.t.Fatal(err)
	}
}

// ends returns the counts that the demo prints.
func (s *shop) ends() audit.Ends {
	s.t.Helper()
	read := map[string]table.DB{}
	for name, db := range s.dbs {
		read[name] = table.SQL(db)
	}
	ends, err := audit.CountEnds(s.t.Context(), read)
	if err != nil {
		s.t.Fatal(err)
	}
	return ends
}

// settled returns the number of unanswered calls that were resolved, as the demo counts them.
func (s *shop) settled() (n int64) {
	for _, one := range s.all {
		n += one.Inbox.Health().UnknownSettled
	}
	return n
}

func (s *shop) allHold() {
	s.t.Helper()
	for name, i := range s.audit(s.t.Context()) {
		if !i.OK {
			s.t.Errorf("%s: %s", name, i.Detail)
		}
	}
}

// A customer places, changes and cancels an order, and the cancellation reaches Payment first: nothing is
// charged, both charges are reported as barred, and the counts show it.
func TestBarredIsCounted(t *testing.T) {
	b := &late{Broker: bus(t), group: "payment", topic: "orders", held: true}
	s := shopOver(t, b, nil, func(d store.Driver[*sql.Tx]) store.Driver[*sql.Tx] { return d })
	var o order.Summary
	var status order.Status
	s.ask("POST", "/orders", twoTeas, &o)
	s.ask("PUT", "/orders/"+o.ID+"/address", `{"address":"elsewhere"}`, &status)
	s.ask("POST", "/orders/"+o.ID+"/cancel", "", &status)
	quiet(t, s.work...)
	const steps = "SELECT COUNT(*) FROM skald_steps WHERE step = 'charge' AND state = 'barred'"
	if n := num(t, s.dbs["payment"], steps); n != 2 || s.ends().Barred != 0 {
		t.Errorf("%d steps are barred, %d messages so far", n, s.ends().Barred)
	}
	if s.ask("GET", "/orders/"+o.ID+"/history", "", &status); status.State != order.Cancelling {
		t.Errorf("the order is %s, though Payment has not heard of it", status.State)
	}
	b.held = false
	quiet(t, s.work...)
	status = order.Status{}
	s.ask("GET", "/orders/"+o.ID+"/history", "", &status)
	if status.State != order.Cancelled || status.Reason != order.ByCustomer ||
		status.Cancellation != "stopped" || status.Changes[0].Answer != "refused" {
		t.Errorf("%+v", status)
	}
	if n := num(t, s.dbs["payment"], "SELECT COUNT(*) FROM gateway_moves"); n != 0 ||
		num(t, s.dbs["payment"], charges) != 0 {
		t.Errorf("the gateway moved %d times", n)
	}
	if ends, h := s.ends(), s.all["payment"].Inbox.Health(); ends.Barred != 2 || h.Barred != 2 {
		t.Errorf("the demo would show %d barred, Payment counts %d, want 2", ends.Barred, h.Barred)
	}
	s.allHold()
}

// A change that the customer cannot pay is declined, and the order continues unchanged.
func TestOrderGoesOnWithoutADeclinedChange(t *testing.T) {
	s := newShop(t, nil)
	var o order.Summary
	var status order.Status
	s.ask("POST", "/orders", `{"customer":"`+sample.Student+
		`","items":[{"sku":"kettle","quantity":2},{"sku":"mug","quantity":1},{"sku":"coffee","quantity":1}]}`,
		&o)
	s.ask("PUT", "/orders/"+o.ID+"/address", `{"address":"elsewhere"}`, &status)
	quiet(t, s.work...)
	status = order.Status{}
	s.ask("GET", "/orders/"+o.ID+"/history", "", &status)
	if status.State != order.Confirmed || len(status.Changes) != 1 || status.Changes[0].Answer != "declined" {
		t.Errorf("%+v", status)
	}
	if n := num(t, s.dbs["payment"], "SELECT balance FROM accounts WHERE id = $1",
		sample.Student); n != 10_000-o.Cents {
		t.Errorf("the customer has %d cents, and has paid %d", n, o.Cents)
	}
	if n := num(t, s.dbs["fulfilment"],
		"SELECT COUNT(*) FROM dispatches WHERE state = 'gone' AND address = ''"); n != 1 {
		t.Error("the parcel went elsewhere")
	}
	s.allHold()
}

// The gateway charges and refunds without a usable answer: each call is looked up, was made once, and is
// counted as settled.
func TestUnknownSettledIsCounted(t *testing.T) {
	const one = `{"customer":"ada","items":[{"sku":"tea","quantity":1}]}`
	const short = `{"customer":"ada","items":[{"sku":"` + sample.Sold + `","quantity":1}]}`
	for name, c := range map[string]struct {
		rates  gateway.Rates
		orders []string
		change bool
		moved  map[string]int64 // by kind; nil: the outcome of the change depends on timing
	}{
		"500 after it has charged and refunded": {gateway.Rates{Fail: 1}, []string{one, short}, false,
			map[string]int64{"charge": 2, "refund": 1}},
		"500, and the order is changed": {gateway.Rates{Fail: 1}, []string{one}, true, nil},
		"it hangs after it has charged": {gateway.Rates{Hang: 1, HangFor: time.Hour}, []string{one}, false,
			map[string]int64{"charge": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			db, at := home(t, "gateway")
			ledger, err := gateway.NewLedger(at, &gateway.Options{Funds: sample.Accounts()})
			if err == nil {
				err = ledger.Prepare(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(gateway.NewServer(ledger, gateway.NewMoods(1, c.rates)).Handler())
			t.Cleanup(server.Close)
			s := newShop(t, &service.Options{Gateway: gateway.NewClient(server.URL),
				Inbox: inbox.Options{Retry: inbox.Retry{InitialInterval: time.Millisecond}}})
			s.dbs["gateway"] = db
			var o order.Summary
			for _, body := range c.orders {
				s.ask("POST", "/orders", body, &o)
			}
			if c.change {
				s.ask("PUT", "/orders/"+o.ID+"/address", `{"address":"elsewhere"}`, &order.Status{})
			}
			const open = "SELECT COUNT(*) FROM orders WHERE state NOT IN ('confirmed', 'cancelled')"
			for deadline := time.Now().Add(5 * time.Minute); num(t, s.dbs["order"],
				open) > 0; time.Sleep(time.Millisecond) {
				if quiet(t, s.work...); time.Now().After(deadline) {
					t.Fatal("the orders do not end")
				}
			}
			quiet(t, s.work...)
			for kind, n := range c.moved {
				if got := num(t, db, "SELECT COUNT(*) FROM gateway_moves WHERE kind = $1", kind); got != n {
					t.Errorf("the gateway made %d times a %s, want %d", got, kind, n)
				}
			}
			if n := num(t, db, "SELECT COUNT(*) FROM gateway_moves"); s.settled() != n || n == 0 {
				t.Errorf("the demo would show %d settled, the gateway moved %d times", s.settled(), n)
			}
			if n := num(t, s.dbs["payment"], "SELECT COUNT(*) FROM transfers WHERE order_id <> ''"); n != num(
				t, db, "SELECT COUNT(*) FROM gateway_moves") {
				t.Errorf("%d transfers", n)
			}
			s.allHold()
		})
	}
}
