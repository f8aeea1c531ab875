package health_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/health"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

func ask(t *testing.T, h http.Handler, method, path string, code int, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	if w.Code != code || text != "" && w.Body.String() != text {
		t.Errorf("%s %s: %d %q, want %d %q", method, path, w.Code, w.Body, code, text)
	}
}

// station is a Part with a state that the test sets.
type station struct {
	skald.Runner
	is skald.Status
}

func (s *station) Status() skald.Status { return s.is }

// A process lives before it is ready; one station that is not ready makes all of it so, and is named.
func TestHandler(t *testing.T) {
	h := health.New(&health.Options{Waiting: "waiting for the database"})
	ask(t, h, "GET", "/livez", 200, "ok\n")
	ask(t, h, "GET", "/readyz", 503, "waiting for the database\n")
	ask(t, h, "GET", "/metrics", 404, "")
	ask(t, h, "POST", "/livez", 405, "")
	one := &station{is: skald.Status{Name: "one", Live: true, Ready: true}}
	two := &station{is: skald.Status{Name: "two", Live: true, Ready: true}}
	h.Add("", one)
	h.Add("billing", two)
	ask(t, h, "GET", "/readyz", 200, "ok\n")
	ask(t, h, "HEAD", "/readyz", 200, "")
	two.is = skald.Status{Live: true, Why: "the broker is away"}
	ask(t, h, "GET", "/readyz", 503, "billing: the broker is away\n")
	ask(t, h, "GET", "/livez", 200, "ok\n")
	one.is = skald.Status{Why: "ended"}
	ask(t, h, "GET", "/livez", 503, "ended\n")
	ask(t, h, "GET", "/readyz", 503, "ended\nbilling: the broker is away\n")
}

// All stations are Parts and have names, and there is a page of metrics.
func TestStations(t *testing.T) {
	db, bus := memstore.New(nil), membroker.New(nil)
	engine, err := saga.NewEngine(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	web := health.NewServer(&http.Server{Addr: ":0"}, nil)
	h := health.New(&health.Options{Metrics: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })},
		relay.New(db, bus, nil), inbox.New(db, bus, "billing", nil), engine, web)
	ask(t, h, "GET", "/metrics", 200, "up 1\n")
	ask(t, h, "GET", "/livez", 200, "ok\n")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	for _, name := range []string{"relay: ", "consumer billing: ", "saga engine: ", "HTTP server :0: "} {
		if !strings.Contains(w.Body.String(), name) {
			t.Errorf("%q is not in %q", name, w.Body)
		}
	}
}
