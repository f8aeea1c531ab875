package health_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/health"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/relay"
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

// A process lives before it is ready; one station that is not ready makes all of it so, and is named.
func TestHandler(t *testing.T) {
	h := health.New(&health.Options{Waiting: "waiting for the database"})
	ask(t, h, "GET", "/livez", 200, "ok\n")
	ask(t, h, "GET", "/readyz", 503, "waiting for the database\n")
	ask(t, h, "GET", "/metrics", 404, "")
	ask(t, h, "POST", "/livez", 405, "")
	one, two := health.Status{Live: true, Ready: true}, health.Status{Live: true, Ready: true}
	h.Add("", func() health.Status { return one })
	h.Add("billing", func() health.Status { return two })
	ask(t, h, "GET", "/readyz", 200, "ok\n")
	ask(t, h, "HEAD", "/readyz", 200, "")
	two = health.Status{Live: true, Why: "the broker is away"}
	ask(t, h, "GET", "/readyz", 503, "billing: the broker is away\n")
	ask(t, h, "GET", "/livez", 200, "ok\n")
	one = health.Status{Why: "ended"}
	ask(t, h, "GET", "/livez", 503, "ended\n")
	ask(t, h, "GET", "/readyz", 503, "ended\nbilling: the broker is away\n")
}

// The stations themselves can be added, and a handler of metrics.
func TestStations(t *testing.T) {
	h := health.New(&health.Options{Metrics: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })})
	db, bus := memstore.New(nil), membroker.New(nil)
	h.AddRelay("relay", relay.New(db, bus, nil))
	h.AddInbox("billing", inbox.New(db, bus, "billing", nil))
	ask(t, h, "GET", "/metrics", 200, "up 1\n")
	ask(t, h, "GET", "/readyz", 503, "")
}
