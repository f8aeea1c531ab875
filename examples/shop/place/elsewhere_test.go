package place_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/store"
)

// Payment is opened by another process than Order, each with databases that the other does not open: the
// status of an order names the message that is parked there, and the command that frees it; freed, it goes
// on.
func TestStatusNamesWhatBlocksAnOrderElsewhere(t *testing.T) {
	t.Parallel()
	here, folder := place.SQLite(t.TempDir()), filepath.Join(t.TempDir(), "till")
	there := place.SQLite(folder)
	s := &shop{t: t, place: there}
	bus, err := place.OpenBus("mem:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(bus.Close(), here.Close(), there.Close()); err != nil {
			t.Error(err)
		}
	})
	o := &service.Options{}
	o.Inbox.Retry.InitialInterval, o.Inbox.Retry.MaxInterval = time.Hour, time.Hour
	s.addWith("payment", "payment", bus, o)
	answers := httptest.NewServer(there.Answer())
	defer answers.Close()
	s.place = here
	for _, name := range service.Names() {
		if name == "payment" {
			continue
		}
		asks := *o
		asks.Where = here.Where(elsewhere(t, "payment="+answers.URL))
		s.addWith(name, name, bus, &asks)
	}
	home, err := there.Home(t.Context(), "payment")
	if err == nil {
		err = home.Make(t.Context(),
			"CREATE TRIGGER sick BEFORE INSERT ON transfers BEGIN SELECT RAISE(ABORT, 'the till is shut'); END")
	}
	if err != nil {
		t.Fatal(err)
	}
	s.order(1, 1)
	id := onlyOrder(t, here)
	s.stepUntilHeld(id, 1)
	now, text := s.status(id)
	want := "skald parked release --store sqlite:" + filepath.Join(folder, "payment.db") +
		" --consumer payment --key " + id + " --reason 'the cause is gone'"
	if h := now.Held[0]; now.State != order.Pending || h.Service != "payment" || h.State != "parked" ||
		h.Attempts != 1 ||
		h.DueSeconds < 60 || h.Command != want || !strings.Contains(h.LastError, "the till is shut") {
		t.Errorf("the status is %s\nwant the command %s", text, want)
	}
	kept, err := store.ListParked(t.Context(), home.Store, store.ParkedQuery{Key: []byte(id), Limit: 10})
	if err != nil || len(kept) != 1 || kept[0].ID != now.Held[0].ID {
		t.Fatalf("kept are %+v, %v", kept, err)
	}
	if err := home.Make(t.Context(), "DROP TRIGGER sick"); err != nil {
		t.Fatal(err)
	}
	if _, err := home.Store.Apply(t.Context(),
		store.Effect{Requeue: &store.Requeue{Consumer: "payment", Identity: kept[0].Identity}}); err != nil {
		t.Fatal(err)
	}
	s.stepUntilHeld(id, 0)
	s.stepUntilQuiet()
	if now, text := s.status(id); now.State != order.Confirmed || len(now.Held) > 0 {
		t.Errorf("freed, the status is %s", text)
	}
}

// Services of other processes that fail, hang or are away are named; the rest of the status stands.
func TestStatusWithoutAnAnswerOfAnotherProcess(t *testing.T) {
	t.Parallel()
	fails := httptest.NewServer(place.SQLite(t.TempDir()).Answer()) // a place without the service
	defer fails.Close()
	hangs := httptest.NewServer(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	asks := elsewhere(t, "payment="+fails.URL, "inventory="+hangs.URL, "fulfilment="+away.URL)
	d := place.SQLite(t.TempDir())
	s := openWith(t, d, &service.Options{Where: d.Where(asks)}, "order")
	s.order(1, 1)
	now, text := s.status(onlyOrder(t, d), "payment", "inventory", "fulfilment")
	if now.State != order.Pending || len(now.Silent) != 3 || now.Silent[0].Service != "fulfilment" ||
		now.Silent[1].Service != "inventory" || now.Silent[2].Service != "payment" {
		t.Errorf("the status is %s", text)
	}
	if !strings.Contains(now.Silent[0].Why, away.URL) || !strings.Contains(now.Silent[1].Why,
		"no answer within 2s") || !strings.Contains(now.Silent[2].Why, fails.URL) {
		t.Errorf("silent are %+v", now.Silent)
	}
}

// A process answers for what it serves, and says so if it is its database that is away.
func TestAnswerOfAProcess(t *testing.T) {
	t.Parallel()
	d := place.SQLite(t.TempDir())
	openWith(t, d, &service.Options{}, "payment", "inventory")
	home, err := d.Home(t.Context(), "inventory")
	if err == nil {
		err = home.Make(t.Context(), "ALTER TABLE skald_parked RENAME TO gone")
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"/payment/o-1/held?key=by0x":   http.StatusOK,
		"/inventory/o-1/held?key=by0x": http.StatusServiceUnavailable, "/order/o-1/held": http.StatusNotFound,
		"/": http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		if d.Answer().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
}

// elsewhere is where --ask says.
func elsewhere(t *testing.T, asks ...string) place.Elsewhere {
	t.Helper()
	e := place.Elsewhere{}
	for _, text := range asks {
		if err := e.Add(text); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func TestWhereToAsk(t *testing.T) {
	t.Parallel()
	e := elsewhere(t, "payment=http://127.0.0.1:9191", "inventory=https://u:secret@stock.example/shop/")
	if len(e) != 2 || e["payment"] != "http://127.0.0.1:9191/payment" ||
		e["inventory"] != "https://u:secret@stock.example/shop/inventory" {
		t.Errorf("%v", e)
	}
	for text, want := range map[string]string{
		"":                                 "NAME=URL",
		"shoes=http://h:1":                 "NAME of order, payment",
		"http://h:1":                       "NAME=URL",
		"payment=http://h:2":               "twice",
		"fulfilment":                       "fulfilment=http://host:port",
		"fulfilment=127.0.0.1:1":           "fulfilment=http://host:port",
		"fulfilment=localhost:1":           "fulfilment=http://host:port",
		"fulfilment=ftp://h:1":             "fulfilment=http://host:port",
		"fulfilment=http://:1":             "fulfilment=http://host:port",
		"fulfilment=http://h:port":         "fulfilment=http://host:port",
		"fulfilment=http://h:1?service=me": "fulfilment=http://host:port",
		"fulfilment=http://h:1#me":         "fulfilment=http://host:port",
	} {
		var usage *place.UsageError
		if err := e.Add(text); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
