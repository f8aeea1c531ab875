package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/store/sqlitestore"
)

// place sends n sample orders over HTTP, with the later requests of their customers. The shop runs a little
// after each order.
func (s *shop) place(seed uint64, n int) {
	s.t.Helper()
	do := func(method, path, body string) {
		r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
		if s.all["order"].HTTP().ServeHTTP(w, r); w.Code >= 300 && w.Code != http.StatusConflict {
			s.t.Fatalf("%s %s: %d: %s", method, path, w.Code, w.Body)
		}
	}
	later := sample.Later{Do: func(id string, w sample.Wish) {
		if w.Address != "" {
			do("PUT", "/orders/"+id+"/address", fmt.Sprintf(`{"address":%q}`, w.Address))
		}
		if w.Cancel {
			do("POST", "/orders/"+id+"/cancel", "")
		}
	}}
	defer later.Rest()
	for _, o := range sample.Orders(seed, n) {
		body, err := json.Marshal(o.Request)
		if err != nil {
			s.t.Fatal(err)
		}
		r := httptest.NewRequest("POST", "/orders", bytes.NewReader(body))
		r.Header.Set("Idempotency-Key", o.Key)
		w := httptest.NewRecorder()
		s.all["order"].HTTP().ServeHTTP(w, r)
		if w.Code != http.StatusCreated {
			s.t.Fatalf("%d: %s", w.Code, w.Body)
		}
		var placed order.Summary
		if err := json.Unmarshal(w.Body.Bytes(), &placed); err != nil {
			s.t.Fatal(err)
		}
		later.Placed(placed.ID, o.Wish)
		if s.works {
			for _, one := range s.work {
				if _, err := one.Step(s.t.Context()); err != nil {
					s.t.Fatal(err)
				}
			}
		}
	}
}

// A hundred orders through six services: every invariant holds, and every outcome occurs.
func TestShop(t *testing.T) {
	s := newShop(t, nil)
	s.works = true
	occurs := func(table, which string) bool {
		return num(t, s.dbs["order"], "SELECT COUNT(*) FROM "+table+" WHERE "+which) > 0
	}
	for seed := uint64(1); seed < 10; seed++ {
		s.place(seed, 100)
		quiet(t, s.work...)
		if occurs("changes", "taken") && occurs("changes", "refused") &&
			occurs("cancellations", "answer = 'stopped'") && occurs("cancellations", "answer = 'gone'") {
			break // the order of arrival is undefined
		}
	}
	for name, i := range s.audit(t.Context()) {
		t.Logf("%-16s %5d  %s", name, i.Checked, i.Detail)
		if !i.OK || i.Checked == 0 {
			t.Errorf("%s: ok %t, checked %d: %s", name, i.OK, i.Checked, i.Detail)
		}
	}
	for _, reason := range []string{"", "payment_declined", "out_of_stock", "shipping_failed",
		"cancelled_by_customer"} {
		if num(t, s.dbs["order"], "SELECT COUNT(*) FROM orders WHERE reason = $1", reason) == 0 {
			t.Errorf("no order ended with reason %q", reason)
		}
	}
	for _, answer := range []string{"stopped", "gone"} {
		if num(t, s.dbs["order"], "SELECT COUNT(*) FROM cancellations WHERE answer = $1", answer) == 0 {
			t.Errorf("no cancellation was answered by %q", answer)
		}
	}
	for _, answer := range []string{"taken", "refused"} {
		if num(t, s.dbs["order"], "SELECT COUNT(*) FROM changes WHERE "+answer) == 0 {
			t.Errorf("no change was answered by %q", answer)
		}
	}
}

// Eight customers want the only piece at the same moment: one gets it, the others get a refund.
func TestLastPiece(t *testing.T) {
	s := newShop(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		var all []skald.Runner
		for _, one := range s.all {
			all = append(all, one.Runners()...)
		}
		done <- skald.Run(ctx, all...)
	}()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := httptest.NewRequest("POST", "/orders",
				strings.NewReader(
					fmt.Sprintf(`{"customer":"customer-%02d","items":[{"sku":"print-00","quantity":1}]}`, i)))
			r.Header.Set("Idempotency-Key", fmt.Sprint("k", i))
			w := httptest.NewRecorder()
			if s.all["order"].HTTP().ServeHTTP(w, r); w.Code != http.StatusCreated {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
		})
	}
	wg.Wait()
	for deadline := time.Now().Add(5 * time.Minute); num(t, s.dbs["notification"],
		"SELECT COUNT(*) FROM mails") < 8; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the orders do not end")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	quiet(t, s.work...)
	if n := num(t, s.dbs["order"], "SELECT COUNT(*) FROM orders WHERE state = 'confirmed'"); n != 1 {
		t.Errorf("%d have the only piece", n)
	}
	for name, i := range s.audit(t.Context()) {
		if !i.OK {
			t.Errorf("%s: %s", name, i.Detail)
		}
	}
}

// breach violates one invariant by hand, in the databases of an idle shop.
type breach struct {
	invariant, service string
	order              string // a condition on orders
	sql                string // statements; $1 is the order
}

// Orders with a requested change of address, for a fee: paid, or paid and refunded.
const (
	moved    = "state = 'confirmed' AND id IN (SELECT order_id FROM changes WHERE taken AND NOT refused)"
	notMoved = "id IN (SELECT order_id FROM changes WHERE paid AND refused)"
)

func breaches() []breach {
	const confirmed, declined = "state = 'confirmed' AND id NOT IN (SELECT order_id FROM changes)",
		"reason = 'payment_declined'"
	return []breach{
		{"money_conserved", "payment", confirmed,
			`DELETE FROM entries WHERE account = 'shop' AND transfer IN (SELECT id FROM transfers WHERE order_id = $1)`},
		{"money_conserved", "payment", confirmed,
			`UPDATE entries SET cents = cents * 2 WHERE transfer IN (SELECT id FROM transfers WHERE order_id = $1);
			UPDATE accounts SET balance = (SELECT SUM(cents) FROM entries WHERE account = accounts.id)`},
		{"charged_once", "payment", confirmed,
			`INSERT INTO transfers (id, kind, order_id, cents, at) SELECT 'twice', kind, order_id, cents, at FROM transfers WHERE order_id = $1;
			INSERT INTO entries (transfer, account, cents) SELECT 'twice', e.account, e.cents FROM entries e JOIN transfers t ON t.id = e.transfer WHERE t.order_id = $1;
			UPDATE accounts SET balance = (SELECT SUM(cents) FROM entries WHERE account = accounts.id)`},
		{"charged_once", "payment", "reason = 'out_of_stock'",
			`DELETE FROM entries WHERE transfer IN (SELECT id FROM transfers WHERE order_id = $1 AND kind = 'refund');
			DELETE FROM transfers WHERE order_id = $1 AND kind = 'refund';
			UPDATE accounts SET balance = (SELECT SUM(cents) FROM entries WHERE account = accounts.id)`},
		{"charged_once", "payment", moved,
			`INSERT INTO transfers (id, kind, order_id, cents, at) SELECT 'twice', kind, order_id, cents, at FROM transfers WHERE order_id = $1 AND cents = 250;
			INSERT INTO entries (transfer, account, cents) SELECT 'twice', e.account, e.cents FROM entries e JOIN transfers t ON t.id = e.transfer
				WHERE t.order_id = $1 AND t.cents = 250;
			UPDATE accounts SET balance = (SELECT SUM(cents) FROM entries WHERE account = accounts.id)`},
		{"charged_once", "payment", notMoved,
			`DELETE FROM entries WHERE transfer IN (SELECT id FROM transfers WHERE order_id = $1 AND kind = 'refund' AND cents = 250);
			DELETE FROM transfers WHERE order_id = $1 AND kind = 'refund' AND cents = 250;
			UPDATE accounts SET balance = (SELECT SUM(cents) FROM entries WHERE account = accounts.id)`},
		{"moved_once", "payment", moved,
			`UPDATE gateway_moves SET key = 'charge-' || order_id WHERE order_id = $1`},
		{"moved_once", "payment", moved, `DELETE FROM gateway_moves WHERE order_id = $1 AND cents = 250`},
		{"orders_ended", "order", notMoved, `UPDATE changes SET undone = FALSE WHERE order_id = $1`},
		{"effect_once", "payment", notMoved,
			`UPDATE skald_step SET state = 1 WHERE saga = $1 AND occurrence <> ''`},
		{"effect_once", "payment", moved,
			`INSERT INTO journal SELECT source, id, 'change.refused', saga, '' FROM skald_step WHERE saga = $1 AND occurrence <> ''`},
		{"moved_once", "payment", confirmed,
			`INSERT INTO gateway_moves SELECT 'twice', kind, key, customer, order_id, cents, at FROM gateway_moves WHERE order_id = $1`},
		{"moved_once", "payment", confirmed, `DELETE FROM gateway_moves WHERE order_id = $1`},
		{"moved_once", "payment", declined,
			`INSERT INTO gateway_moves VALUES ('unasked', 'charge', 'k', 'ada', $1, 1, '')`},
		{"stock_conserved", "inventory", confirmed,
			`INSERT INTO movements (order_id, sku, quantity, at) SELECT order_id, sku, -quantity, at FROM movements WHERE order_id = $1;
			UPDATE stock SET reserved = (SELECT COALESCE(SUM(quantity), 0) FROM movements m WHERE m.sku = stock.sku);
			UPDATE stock SET available = delivered - reserved`},
		{"stock_conserved", "inventory", declined,
			`INSERT INTO movements (order_id, sku, quantity, at) VALUES ($1, 'tea', 1, '');
			UPDATE stock SET available = available - 1, reserved = reserved + 1 WHERE sku = 'tea'`},
		{"orders_ended", "order", "id = 'lost'", `SELECT 1`},
		{"orders_ended", "order", confirmed, `UPDATE skald_tracked SET state = 'running' WHERE key = $1`},
		{"orders_ended", "order", "id IN (SELECT order_id FROM cancellations WHERE answer = 'stopped')",
			`UPDATE cancellations SET answer = '' WHERE order_id = $1`},
		{"shipped_once", "fulfilment", confirmed,
			`INSERT INTO parcels SELECT * FROM parcels WHERE order_id = $1`},
		{"shipped_once", "fulfilment", confirmed, `DELETE FROM parcels WHERE order_id = $1`},
		{"shipped_once", "fulfilment", "id IN (SELECT order_id FROM cancellations WHERE answer = 'stopped')",
			`INSERT INTO parcels (order_id, state, reason, at) VALUES ($1, 'shipped', '', '')`},
		{"shipped_once", "fulfilment", moved,
			`UPDATE dispatches SET address = 'elsewhere' WHERE order_id = $1`},
		{"shipped_once", "fulfilment", confirmed, `UPDATE dispatches SET number = 9 WHERE order_id = $1`},
		{"delivered_to_all", "analytics", confirmed,
			`DELETE FROM skald_mark WHERE id = (SELECT message FROM journal WHERE order_id = $1 AND type = 'parcel.shipped');
			DELETE FROM journal WHERE order_id = $1 AND type = 'parcel.shipped'`},
		{"order_per_key", "analytics", confirmed,
			`UPDATE skald_mark SET arrival = -arrival WHERE id = (SELECT message FROM journal WHERE order_id = $1 AND type = 'order.confirmed')`},
		{"effect_once", "inventory", confirmed,
			`INSERT INTO journal SELECT * FROM journal WHERE order_id = $1`},
		{"effect_once", "fulfilment", confirmed, `DELETE FROM journal WHERE order_id = $1`},
		{"effect_once", "notification", confirmed,
			`INSERT INTO journal VALUES ('elsewhere', 'unmarked', 'order.confirmed', $1, '')`},
		{"effect_once", "payment", "reason = 'out_of_stock'",
			`UPDATE skald_step SET state = 1 WHERE saga = $1`},
		{"effect_once", "inventory", confirmed, `UPDATE skald_step SET state = 7 WHERE saga = $1`},
		{"effect_once", "payment", confirmed,
			`INSERT INTO journal SELECT source, id, 'parcel.stopped', saga, '' FROM skald_step WHERE saga = $1`},
		{"mailed_once", "notification", declined,
			`INSERT INTO mails SELECT * FROM mails WHERE order_id = $1`},
		{"posted_once", "order", confirmed,
			`INSERT INTO receipts (key, code, body) VALUES ('k', 201, '{"id":"' || $1 || '"}')`},
		{"mailed_once", "notification", confirmed, `DELETE FROM mails WHERE order_id = $1`},
	}
}

// The auditor finds each breach, reports only the right invariant, and names the order.
func TestAuditorSeesEachBreach(t *testing.T) {
	s := newShop(t, nil)
	some := func(which string) bool {
		return num(t, s.dbs["order"], "SELECT COUNT(*) FROM orders WHERE "+which) > 0
	}
	for seed := uint64(1); seed == 1 || !some(moved) || !some(notMoved); seed++ {
		// which of change and parcel is first is undefined
		if seed > 30 {
			t.Fatal("no change is paid and refused, or none is made")
		}
		s.place(seed, 50)
		quiet(t, s.work...)
	}
	for _, b := range breaches() {
		t.Run(b.invariant, func(t *testing.T) {
			mended, id := s.broken(t, b)
			for name, i := range mended.audit(t.Context()) {
				switch {
				case name == "moved_once" && b.invariant == "charged_once":
					// the gateway's ledger shows it, too
				case name != b.invariant && !i.OK:
					t.Errorf("%s is blamed, too: %s", name, i.Detail)
				case name == b.invariant && i.OK:
					t.Errorf("%s is not seen", name)
				case name == b.invariant && !strings.Contains(i.Detail, id):
					t.Errorf("%s does not name order %s: %s", name, id, i.Detail)
				}
			}
		})
	}
}

// If outboxes are empty, purged or never written, the journals have the type of a message: a message that
// had nothing to undo is not reported, and a breach names its order.
func TestAuditorNeedsNoOutbox(t *testing.T) {
	s := newShop(t, nil)
	s.place(1, 50)
	quiet(t, s.work...)
	for name := range s.dbs {
		if err := s.try(name, "DELETE FROM skald_outbox", ""); err != nil {
			t.Fatal(err)
		}
	}
	for name, i := range s.audit(t.Context()) {
		if !i.OK {
			t.Errorf("%s: %s", name, i.Detail)
		}
	}
	for service, sql := range map[string]string{
		"inventory": `INSERT INTO journal SELECT * FROM journal WHERE order_id = $1`,
		"payment":   `DELETE FROM journal WHERE order_id = $1`,
	} {
		mended, id := s.broken(t, breach{"effect_once", service, "state = 'confirmed'", sql})
		if i := mended.audit(t.Context())["effect_once"]; i.OK ||
			!strings.Contains(i.Detail, "order "+id+": ") {
			t.Errorf("%s: it says %s", service, i.Detail)
		}
	}
}

// A shop whose Payment never runs: no order ends, and the auditor reports what was not delivered.
func TestAuditorSeesUnfinishedWork(t *testing.T) {
	s := newShop(t, nil)
	s.place(1, 3)
	quiet(t, s.all["order"].Relay, s.all["analytics"].Inbox)
	for name, i := range s.audit(t.Context()) {
		if want := name != "orders_ended" && name != "delivered_to_all"; i.OK != want {
			t.Errorf("%s: ok %t, want %t: %s", name, i.OK, want, i.Detail)
		}
	}
}

// broken returns a copy of the shop in which b was applied to an order.
func (s *shop) broken(t *testing.T, b breach) (mended *shop, id string) {
	t.Helper()
	mended = s.copy(t, b.service)
	if b.order == "id = 'lost'" { // an order whose event was never written
		if err := mended.try("order",
			`INSERT INTO orders (id, customer, cents, state) VALUES ('lost', 'ada', 1, 'pending')`,
			""); err != nil {
			t.Fatal(err)
		}
	}
	err := table.SQL(mended.dbs["order"]).QueryRow(t.Context(), "SELECT min(id) FROM orders WHERE "+
		b.order).Scan(&id)
	if err == nil {
		err = mended.try(b.service, b.sql, id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return mended, id
}

// copy returns a copy of the shop; the database of that service may be changed.
func (s *shop) copy(t *testing.T, name string) *shop {
	t.Helper()
	path := filepath.Join(folder(t), name+".db")
	if _, err := s.dbs[name].ExecContext(t.Context(), "VACUUM INTO ?1", path); err != nil {
		t.Fatal(err)
	}
	copied, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = copied.Close() })
	out := &shop{t: t, dbs: maps.Clone(s.dbs)}
	out.dbs[name] = copied
	return out
}

// try runs a script, statement by statement.
func (s *shop) try(name, script, order string) error {
	for one := range strings.SplitSeq(script, ";") {
		var args []any
		if strings.Contains(one, "$1") {
			args = []any{order}
		}
		if _, err := table.SQL(s.dbs[name]).Exec(s.t.Context(), one, args...); err != nil {
			return fmt.Errorf("%s: %w", one, err)
		}
	}
	return nil
}

// The auditor's own list of subscriptions matches that of the services: otherwise it would miss a delivery
// or report a wrong one.
func TestAuditorKnowsWhoHandlesWhat(t *testing.T) {
	v := event.Verdict{Order: event.Order{ID: "o", Customer: "ada"}}
	c := event.Change{Order: v.Order, Number: 1, Address: "elsewhere", Fee: 1}
	for i := range 2 * len(service.Names()) {
		name, style := service.Names()[i/2], []event.Style{event.Choreographed, event.Orchestrated}[i%2]
		db, at := home(t, name)
		r := rigAt(t, name, db, at, &service.Options{Style: style})
		e := r.ev
		for i, d := range []skald.Draft{
			e.OrderPlaced.New("o", event.Order{ID: "o", Customer: "ada"}), e.OrderConfirmed.New("o", v),
			e.OrderCancelled.New("o", v),
			e.PaymentTaken.New("o", v), e.PaymentDeclined.New("o", v), e.PaymentRefunded.New("o", v),
			e.StockReserved.New("o", v), e.StockShort.New("o", v), e.StockReleased.New("o", v),
			e.ParcelShipped.New("o", v), e.ParcelFailed.New("o", v),
			e.ParcelStopped.New("o", v), e.ParcelGone.New("o", v), e.CancelAsked.New("o", v),
			e.ChangeAsked.New("o", c), e.ChangeTaken.New("o", c), e.ChangeRefused.New("o", c),
			e.ChangePaid.New("o", c), e.ChangeDeclined.New("o", c), e.ChangeUndone.New("o", c),
			e.ChargePayment.New("o", v.Order), e.RefundPayment.New("o", v), e.ReserveStock.New("o", v),
			e.ReleaseStock.New("o", v), e.ShipParcel.New("o", v),
		} {
			before := r.num("SELECT COUNT(*) FROM skald_mark")
			r.deliver(1, d)
			handles := r.num("SELECT COUNT(*) FROM skald_mark") > before
			if says := slices.Contains(audit.Subscribers(d.Type, style == event.Orchestrated),
				name); says != handles {
				t.Errorf("%d: %s (%s) handles %s: %t, the auditor says %t", i, name, style, d.Type,
					handles, says)
			}
		}
	}
}

// asked records the groups that join.
type asked struct {
	*membroker.Broker
	groups []broker.Group
}

func (b *asked) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	b.groups = append(b.groups, g)
	return b.Broker.Subscribe(ctx, g)
}

// Brokers that need the groups in advance are configured with the subscriptions of the services.
func TestListens(t *testing.T) {
	ev, b := event.New(""), &asked{Broker: bus(t)}
	for i := range 2 * len(service.Names()) {
		name := service.Names()[i/2]
		ev.Style = []event.Style{event.Choreographed, event.Orchestrated}[i%2]
		_, at := home(t, name)
		svc, err := service.New(name, at, b, &service.Options{Style: ev.Style})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := svc.Inbox.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		g := b.groups[len(b.groups)-1]
		want := slices.Sorted(slices.Values(ev.Listens()[name]))
		if got := slices.Sorted(slices.Values(g.Topics)); !slices.Equal(got, want) ||
			g.Name != ev.Group(name) {
			t.Errorf("%s joins %s with %v, want %v", name, g.Name, got, want)
		}
	}
}
