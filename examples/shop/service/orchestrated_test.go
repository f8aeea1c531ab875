package service_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store/sqlitestore"
)

// until runs the shop until a query of Order's database returns this count.
func (s *shop) until(n int64, query string) {
	s.t.Helper()
	for end := time.Now().Add(5 * time.Minute); num(s.t, s.dbs["order"], query) != n; {
		if time.Now().After(end) {
			s.t.Fatalf("%s is %d, not %d", query, num(s.t, s.dbs["order"], query), n)
		}
		for _, one := range s.work {
			if _, err := one.Step(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// An operator cancels the saga of an order with a requested change of address: everything is undone, the
// change included, and the order is cancelled. A customer who cancels while the order is being placed is
// told to retry.
func TestOperatorCancelsAnOrder(t *testing.T) {
	s := newShop(t, &service.Options{Style: event.Orchestrated})
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Idempotency-Key", "k")
		s.all["order"].HTTP().ServeHTTP(w, r)
		return w
	}
	at := ask("POST", "/orders",
		`{"customer":"ada","items":[{"sku":"tea","quantity":2}]}`).Header().Get("Location")
	if w := ask("POST", at+"/cancel", ""); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask("PUT", at+"/address", `{"address":"elsewhere"}`); w.Code != http.StatusAccepted {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.until(1, "SELECT COUNT(*) FROM skald_outbox WHERE type = 'payment.charge'")
	cancel, by := operate.SagaChange{Verb: operate.CancelSaga}, operate.Order{Author: "eve", Reason: "a hoax"}
	db := sqlitestore.New(s.dbs["order"], nil)
	if _, err := operate.ChangeSagas(t.Context(), db, operate.SagaSelection{Name: "order"}, cancel,
		by); err != nil {
		t.Fatal(err)
	}
	s.until(1, "SELECT COUNT(*) FROM orders WHERE state = 'cancelled' AND reason = '"+order.GivenUp+"'")
	quiet(t, s.work...)
	for name, i := range s.audit(t.Context()) {
		if !i.OK {
			t.Errorf("%s: %s", name, i.Detail)
		}
	}
	if n := num(t, s.dbs["order"], "SELECT COUNT(*) FROM changes WHERE refused AND undone"); n != 1 {
		t.Errorf("%d changes are undone", n)
	}
}
