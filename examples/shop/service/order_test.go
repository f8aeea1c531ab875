package service_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/internal/need"
)

// post sends a body to POST /orders.
func (r *rig) post(key, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
	if key != "" {
		req.Header.Set("Idempotency-Key", strconv.Quote(key))
	}
	w := httptest.NewRecorder()
	r.svc.HTTP().ServeHTTP(w, req)
	return w
}

func (r *rig) get(path string, into any) *httptest.ResponseRecorder {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.svc.HTTP().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			r.t.Fatal(err)
		}
	}
	return w
}

const twoTeas = `{"customer":"ada","items":[{"sku":"tea","quantity":2},{"sku":"mug","quantity":1}]}`

// placed places an order and returns it as in its event.
func (r *rig) placed(key string) event.Order {
	r.t.Helper()
	w := r.post(key, twoTeas)
	var s order.Summary
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != http.StatusCreated {
		r.t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
	}
	return s.Order
}

func TestPostOrder(t *testing.T) {
	r := newRig(t, "order")
	o := r.placed("k1")
	if o.Cents != 2*490+1250 || len(o.Items) != 2 || o.Customer != "ada" {
		t.Errorf("placed %+v", o)
	}
	r.wantSent("order.placed " + o.ID)
	repeat := r.post("k1", twoTeas)
	var again order.Summary
	if err := json.Unmarshal(repeat.Body.Bytes(), &again); err != nil || repeat.Code != http.StatusCreated ||
		again.ID != o.ID || repeat.Header().Get("Location") != "/orders/"+o.ID {
		t.Errorf("the repeat: %d %s", repeat.Code, repeat.Body)
	}
	r.want(1, "SELECT COUNT(*) FROM orders")
	r.wantSent("order.placed " + o.ID)
	var found order.Summary
	if w := r.get("/orders/"+o.ID, &found); w.Code != http.StatusOK || found.ID != o.ID ||
		found.State != order.Pending || len(found.Items) != 2 {
		t.Errorf("GET: %d %s", w.Code, w.Body)
	}
}

func TestPostOrderRefusals(t *testing.T) {
	r := newRig(t, "order")
	r.placed("k1")
	for _, c := range []struct {
		name, key, body string
		code            int
	}{
		{"other body", "k1", `{"customer":"ada","items":[{"sku":"tea","quantity":3}]}`, 422},
		{"no key", "", twoTeas, 400},
		{"long key", strings.Repeat("k", 256), twoTeas, 400},
		{"empty body", "k2", ``, 400},
		{"not JSON", "k2", `{"customer":`, 400},
		{"two values", "k2", twoTeas + twoTeas, 400},
		{"unknown field", "k2", `{"customer":"ada","items":[{"sku":"tea","quantity":1}],"discount":99}`, 400},
		{"no customer", "k2", `{"items":[{"sku":"tea","quantity":1}]}`, 400},
		{"no items", "k2", `{"customer":"ada","items":[]}`, 400},
		{"no SKU", "k2", `{"customer":"ada","items":[{"quantity":1}]}`, 400},
		{"none of it", "k2", `{"customer":"ada","items":[{"sku":"tea","quantity":0}]}`, 400},
		{"fewer than none", "k2", `{"customer":"ada","items":[{"sku":"tea","quantity":-1}]}`, 400},
		{"too many", "k2", `{"customer":"ada","items":[{"sku":"tea","quantity":1001}]}`, 400},
		{"half a piece", "k2", `{"customer":"ada","items":[{"sku":"tea","quantity":0.5}]}`, 400},
		{"too large", "k2", `{"customer":"` + strings.Repeat("a", 70_000) + `"}`, 413},
	} {
		w := r.post(c.key, c.body)
		var problem struct {
			Title, Detail string
			Status        int
		}
		if w.Code != c.code || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Header().Get("Content-Type"), c.code)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || problem.Status != c.code ||
			problem.Detail == "" {
			t.Errorf("%s: %s", c.name, w.Body)
		}
	}
	r.want(1, "SELECT COUNT(*) FROM orders")
	for _, path := range []string{"/orders/none", "/orders/none/history"} {
		if w := r.get(path, nil); w.Code != http.StatusNotFound ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// A customer who clicks eight times at once has one order.
func TestPostOrderAtOnce(t *testing.T) {
	r := newRig(t, "order")
	codes := make([]int, 8)
	var wg sync.WaitGroup
	for i := range codes {
		wg.Go(func() { codes[i] = r.post("k1", twoTeas).Code })
	}
	wg.Wait()
	slices.Sort(codes)
	if !slices.Equal(codes, []int{201, 201, 201, 201, 201, 201, 201, 201}) {
		t.Errorf("answers %v", codes)
	}
	r.want(1, "SELECT COUNT(*) FROM orders")
	r.want(1, "SELECT COUNT(*) FROM skald_outbox")
}

// All events about one order, in every order of arrival, twice each: the final state, the history and the
// sent events are right, and each event is sent once. With five messages only make nightly runs all
// permutations.
func TestOrderTakesEventsInAnyOrder(t *testing.T) {
	r := newRig(t, "order")
	say := map[string]skald.Event[event.Verdict]{
		"taken": r.ev.PaymentTaken, "declined": r.ev.PaymentDeclined, "refunded": r.ev.PaymentRefunded,
		"reserved": r.ev.StockReserved, "short": r.ev.StockShort, "released": r.ev.StockReleased,
		"shipped": r.ev.ParcelShipped, "failed": r.ev.ParcelFailed,
		"stopped": r.ev.ParcelStopped, "gone": r.ev.ParcelGone,
	}
	ofChange := map[string]skald.Event[event.Change]{
		"change.paid": r.ev.ChangePaid, "change.declined": r.ev.ChangeDeclined,
		"change.undone": r.ev.ChangeUndone,
		"change.taken":  r.ev.ChangeTaken, "change.refused": r.ev.ChangeRefused,
	}
	draft := func(what string, o event.Order) skald.Draft {
		if e, ok := ofChange[what]; ok {
			return e.New(o.ID, event.Change{Order: o, Number: 1, Address: "elsewhere", Fee: 250})
		}
		return say[what].New(o.ID, about(o))
	}
	for _, c := range []struct {
		says   string
		sent   string
		state  order.State
		reason string
	}{
		{"taken reserved shipped", "order.confirmed", order.Confirmed, ""},
		{"declined", "order.cancelled", order.Cancelled, "payment_declined"},
		{"taken short refunded", "order.cancelled", order.Cancelled, "out_of_stock"},
		{"taken reserved failed released refunded", "order.cancelled", order.Cancelled, "shipping_failed"},
		{"taken reserved shipped gone", "order.confirmed", order.Confirmed, ""},
		{"stopped declined", "order.cancelled", order.Cancelled, "cancelled_by_customer"},
		{"taken stopped short refunded", "order.cancelled", order.Cancelled, "cancelled_by_customer"},
		{"taken reserved stopped released refunded", "order.cancelled", order.Cancelled,
			"cancelled_by_customer"},
		{"taken reserved shipped change.paid change.taken", "order.confirmed", order.Confirmed, ""},
		{"taken reserved shipped change.refused change.undone", "order.confirmed", order.Confirmed, ""},
		{"declined change.refused change.undone", "order.cancelled", order.Cancelled, "payment_declined"},
		{"stopped declined change.refused change.undone", "order.cancelled", order.Cancelled,
			"cancelled_by_customer"},
	} {
		asked, changed := strings.Contains(c.says, "gone") || strings.Contains(c.says, "stopped"),
			strings.Contains(c.says, "change.")
		all := permutations(strings.Fields(c.says))
		if len(all) > 24 && !need.Full() {
			all = oneInSeven(all)
		}
		orders := make([]event.Order, len(all))
		for i := range all {
			orders[i] = r.placed(fmt.Sprint(c.says, i))
			if changed {
				r.asks(http.StatusAccepted, "PUT", "/orders/"+orders[i].ID+"/address",
					`{"address":"elsewhere"}`)
			}
			if asked {
				r.asks(http.StatusAccepted, "POST", "/orders/"+orders[i].ID+"/cancel", "")
			}
		}
		for k := range all[0] { // first one message of each order, then the next
			for i, says := range all {
				r.publish(2, draft(says[k], orders[i]))
			}
			quiet(t, r.svc.Inbox)
			sent := r.sentOf("type NOT IN ('order.cancel_asked', 'order.change_asked')")
			for i, says := range all {
				if n := sent[orders[i].ID]; n > 1 && k < len(says)-1 {
					t.Errorf("%v: sent an event after %s", says, says[k])
				}
			}
		}
		sent := r.sentOf("true")
		for i, says := range all {
			r.checkEnd(orders[i].ID, says, sent[orders[i].ID], c.sent, c.state, c.reason)
		}
	}
}

// oneInSeven is a sample of the permutations of five messages. In it each message occurs at each place, and
// directly before each other one.
func oneInSeven(all [][]string) (some [][]string) {
	for i := 1; i < len(all); i += 7 {
		some = append(some, all[i])
	}
	return some
}

// sentOf counts the messages that the service sent, by order.
func (r *rig) sentOf(which string) map[string]int {
	r.t.Helper()
	out := map[string]int{}
	err := table.All(r.t.Context(), table.SQL(r.db), "SELECT key, COUNT(*) FROM skald_outbox WHERE "+which+
		" GROUP BY key", nil, func(row table.Row) error {
		var key string
		var n int
		err := row.Scan(&key, &n)
		out[key] = n
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) checkEnd(id string, says []string, count int, sent string, state order.State, reason string) {
	r.t.Helper()
	var status order.Status
	if w := r.get("/orders/"+id+"/history", &status); w.Code != http.StatusOK {
		r.t.Fatalf("%v: %d %s", says, w.Code, w.Body)
	}
	if status.ID != id || status.State != state || status.Reason != reason {
		r.t.Errorf("%v: %+v, want %s %q", says, status, state, reason)
	}
	last := status.History[len(status.History)-1]
	if _, err := time.Parse(time.RFC3339, last.At); err != nil || last.State != state ||
		status.History[0].State != order.Pending {
		r.t.Errorf("%v: history %+v: %v", says, status.History, err)
	}
	want := 2
	if slices.Contains(says, "gone") || slices.Contains(says, "stopped") {
		want++ // the event about the customer's request
	}
	if slices.ContainsFunc(says, func(s string) bool { return strings.HasPrefix(s, "change.") }) {
		want++ // the same
	}
	if count != want {
		r.t.Errorf("%v: %d events about the order", says, count)
	}
	r.want(1, "SELECT COUNT(*) FROM skald_outbox WHERE key = $1 AND type = $2", id, sent)
	r.want(int64(len(says)), "SELECT COUNT(*) FROM journal WHERE order_id = $1", id)
}

// asks sends a request and checks the answer.
func (r *rig) asks(code int, method, path, body string) {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.svc.HTTP().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	if w.Code != code {
		r.t.Fatalf("%s %s: %d, want %d: %s", method, path, w.Code, code, w.Body)
	}
}

// A request of a customer after the order is taken once, answered by Fulfilment, and refused when it is too
// late.
func TestCustomerRequests(t *testing.T) {
	r := newRig(t, "order")
	o := r.placed("k1")
	at := "/orders/" + o.ID
	r.asks(http.StatusNotFound, "POST", "/orders/none/cancel", "")
	r.asks(http.StatusNotFound, "PUT", "/orders/none/address", `{"address":"here"}`)
	for _, bad := range []string{``, `{}`, `{"address":""}`, `{"address":1}`, `{"address":"` +
		strings.Repeat("x", 501) + `"}`} {
		r.asks(http.StatusBadRequest, "PUT", at+"/address", bad)
	}
	r.asks(http.StatusAccepted, "PUT", at+"/address", `{"address":"here"}`)
	r.asks(http.StatusOK, "PUT", at+"/address", `{"address":"here"}`)
	r.asks(http.StatusAccepted, "PUT", at+"/address", `{"address":"there"}`)
	r.asks(http.StatusAccepted, "POST", at+"/cancel", "")
	r.asks(http.StatusOK, "POST", at+"/cancel", "")
	r.asks(http.StatusConflict, "PUT", at+"/address", `{"address":"nowhere"}`)
	r.wantSent("order.placed "+o.ID, "order.change_asked "+o.ID, "order.change_asked "+o.ID,
		"order.cancel_asked "+o.ID)
	here, there := event.Change{Order: o, Number: 1, Address: "here", Fee: 250},
		event.Change{Order: o, Number: 2, Address: "there", Fee: 250}
	r.deliver(2, r.ev.ChangePaid.New(o.ID, here))
	r.deliver(2, r.ev.ChangeTaken.New(o.ID, here))
	r.deliver(2, r.ev.ChangeRefused.New(o.ID, there))
	r.deliver(1, r.ev.ChangeTaken.New("x", event.Change{Order: event.Order{ID: "x"}, Number: 1}))
	r.want(1, "SELECT COUNT(*) FROM skald_mark WHERE outcome = 2")
	var status order.Status
	r.get(at+"/history", &status)
	want := []order.Changed{{Address: "here", Cents: 250, Answer: "taken"},
		{Address: "there", Cents: 250, Answer: "refused"}}
	if status.Cancellation != "asked" || !slices.Equal(status.Changes, want) {
		t.Errorf("%+v", status)
	}
	r.deliver(1, r.ev.ParcelStopped.New(o.ID, about(o)))
	r.deliver(1, r.ev.ChangeUndone.New(o.ID, there))
	r.deliver(1, r.ev.PaymentDeclined.New(o.ID, about(o)))
	r.want(0, "SELECT COUNT(*) FROM orders WHERE state = 'cancelled'") // the change that was taken remains
	r.deliver(1, r.ev.ChangeRefused.New(o.ID, here))
	r.deliver(1, r.ev.ChangeUndone.New(o.ID, here))
	r.want(1, "SELECT COUNT(*) FROM orders WHERE state = 'cancelled'")
	r.asks(http.StatusOK, "POST", at+"/cancel", "") // the cancellation is complete
	ended := r.placed("k2")
	r.deliver(1, r.ev.PaymentDeclined.New(ended.ID, about(ended)))
	r.asks(http.StatusConflict, "POST", "/orders/"+ended.ID+"/cancel", "")
	r.asks(http.StatusConflict, "PUT", "/orders/"+ended.ID+"/address", `{"address":"here"}`)
	r.want(1, "SELECT COUNT(*) FROM cancellations")
	r.want(2, "SELECT COUNT(*) FROM changes")
}

func permutations(s []string) [][]string {
	if len(s) < 2 {
		return [][]string{s}
	}
	var out [][]string
	for i := range s {
		for _, p := range permutations(slices.Delete(slices.Clone(s), i, i+1)) {
			out = append(out, append([]string{s[i]}, p...))
		}
	}
	return out
}

// An event about an unknown order is rejected and blocks no other message.
func TestOrderRejectsUnknownOrders(t *testing.T) {
	r := newRig(t, "order")
	r.deliver(1, r.ev.PaymentTaken.New("x", about(tea("x", "ada", 1))))
	r.want(1, "SELECT COUNT(*) FROM skald_mark WHERE outcome = 2")
	r.want(0, notes)
}

// The message formats are those in README.md.
func TestOrderPlacedPayload(t *testing.T) {
	r := newRig(t, "order")
	o := r.placed("k1")
	var data string
	if err := table.SQL(r.db).QueryRow(t.Context(), "SELECT data FROM skald_outbox").Scan(&data); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"id":%q,"customer":"ada","items":[{"sku":"tea","quantity":2,"cents":490},{"sku":"mug","quantity":1,"cents":1250}],"cents":2230}`, o.ID)
	if !bytes.Equal([]byte(data), []byte(want)) {
		t.Errorf("%s, want %s", data, want)
	}
}
