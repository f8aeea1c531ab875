package status_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/status"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

func customers(db store.Lister, o status.CustomerOptions) http.Handler {
	o.Logger = slog.New(slog.DiscardHandler)
	mux := http.NewServeMux()
	mux.Handle("/subscriptions/{id}/status",
		status.Customer(db, func(r *http.Request) string { return r.PathValue("id") }, &o))
	return mux
}

// TestCustomer checks that a customer gets the team's word for the state, and nothing for operators. The
// message of this saga is a dead letter.
func TestCustomer(t *testing.T) {
	db := tracked(t)
	keep(t, db, "m-1", "o-1", &store.Death{At: time.Now(), Kind: "attempts", BlocksKey: true}, false)
	shouting := func(s *operate.SagaProgress) string { return strings.ToUpper(s.State) }
	for _, c := range []struct {
		o     status.CustomerOptions
		state string
	}{
		{status.CustomerOptions{}, "in_progress"},
		{status.CustomerOptions{Name: "order", State: shouting}, "RUNNING"},
		{status.CustomerOptions{State: func(*operate.SagaProgress) string { return "" }}, "in_progress"},
	} {
		code, text := get(t, customers(db, c.o), "/subscriptions/o-1/status")
		var got map[string]any
		if err := json.Unmarshal([]byte(text), &got); code != http.StatusOK || err != nil {
			t.Fatalf("%d %s: %v", code, text, err)
		}
		if got["state"] != c.state || got["key"] != "o-1" || len(got) != 4 {
			t.Errorf("%s: %s", c.state, text)
		}
		for _, secret := range []string{"skald", "bank", "payment", "m-1"} {
			if strings.Contains(text, secret) {
				t.Errorf("a customer reads %q: %s", secret, text)
			}
		}
	}
	for path, want := range map[string]int{"/subscriptions/o-2/status": http.StatusNotFound,
		"/subscriptions/%00/status": http.StatusNotFound} {
		if code, _ := get(t, customers(db, status.CustomerOptions{}), path); code != want {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _ := get(t, customers(db, status.CustomerOptions{Name: "another"}),
		"/subscriptions/o-1/status"); code != http.StatusNotFound {
		t.Errorf("another saga of the key: %d", code)
	}
	code, text := get(t, customers(failing{}, status.CustomerOptions{}), "/subscriptions/o-1/status")
	if code != http.StatusServiceUnavailable || strings.Contains(text, "secret") {
		t.Errorf("without a database: %d %s", code, text)
	}
	denied := status.Customer(db, func(*http.Request) string { return "" }, nil)
	if code, _ := get(t, denied, "/o-1"); code != http.StatusNotFound {
		t.Errorf("of another customer: %d", code)
	}
}

func TestCustomerState(t *testing.T) {
	for state, want := range map[string]string{"running": "in_progress", "done": "completed",
		"compensating": "cancelling", "compensated": "cancelled"} {
		if got := status.CustomerState(&operate.SagaProgress{State: state, Stuck: true}); got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
	}
}

func withKey(r *http.Request) *http.Request {
	r.SetPathValue("key", "o-1")
	r.RemoteAddr = "127.0.0.1:1"
	return r
}

// TestHandlerAtAnyRoute checks that the operators' handler answers at any route that has {key}.
func TestHandlerAtAnyRoute(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("GET /subscriptions/{key}/status", handler(t, tracked(t), status.Options{}))
	for path, want := range map[string]int{"/subscriptions/o-1/status": http.StatusOK,
		"/subscriptions/o-2/status": http.StatusNotFound,
		"/subscriptions/%00/status": http.StatusBadRequest} {
		if code, text := get(t, mux, path); code != want {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	post := httptest.NewRecorder()
	handler(t, tracked(t), status.Options{}).ServeHTTP(post, withKey(httptest.NewRequest("POST", "http://localhost/x", nil)))
	if post.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", post.Code)
	}
	empty := handler(t, memstore.New(nil), status.Options{})
	if code, _ := get(t, empty, "/subscriptions/o-1/status"); code != http.StatusNotFound {
		t.Errorf("no such path: %d", code)
	}
}
