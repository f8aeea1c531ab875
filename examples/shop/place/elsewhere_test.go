package place_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
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
func TestStatusNamesWhatHoldsAnOrderElsewhere(t *testing.T) {
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
	o.Inbox.RetryFirst, o.Inbox.RetryMost = time.Hour, time.Hour
	s.addWith("payment", "payment", bus, o)
	answers := httptest.NewServer(there.Answer(""))
	defer answers.Close()
	s.place = here
	for _, name := range service.Names() {
		if name == "payment" {
			continue
		}
		asks := *o
		asks.Held = here.Held("", elsewhere(t, "payment="+answers.URL))
		s.addWith(name, name, bus, &asks)
	}
	home, err := there.Home(t.Context(), "payment")
	if err == nil {
		err = home.Make(t.Context(), "CREATE TRIGGER sick BEFORE INSERT ON transfers BEGIN SELECT RAISE(ABORT, 'the till is shut'); END")
	}
	if err != nil {
		t.Fatal(err)
	}
	s.order(1, 1)
	id := onlyOrder(t, here)
	s.stepUntilHeld(id, 1)
	now, text := s.status(id)
	want := "skald parked release --store sqlite:" + filepath.Join(folder, "payment.db") + " --consumer payment --key " + id + " --reason 'the cause is gone'"
	if h := now.Held[0]; now.State != order.Pending || h.Service != "payment" || h.State != "parked" || h.Attempts != 1 ||
		h.DueSeconds < 60 || h.Command != want || !strings.Contains(h.Why, "the till is shut") {
		t.Errorf("the status is %s\nwant the command %s", text, want)
	}
	kept, err := store.ListKept(t.Context(), home.Store, store.Sought{Key: []byte(id), Limit: 10})
	if err != nil || len(kept) != 1 || kept[0].ID != now.Held[0].ID {
		t.Fatalf("kept are %+v, %v", kept, err)
	}
	if err := home.Make(t.Context(), "DROP TRIGGER sick"); err != nil {
		t.Fatal(err)
	}
	if _, err := home.Store.Apply(t.Context(), store.Effect{Requeue: &store.Requeue{Consumer: "payment", Identity: kept[0].Identity}}); err != nil {
		t.Fatal(err)
	}
	s.stepUntilHeld(id, 0)
	s.stepUntilQuiet()
	if now, text := s.status(id); now.State != order.Confirmed || strings.Contains(text, "held") {
		t.Errorf("freed, the status is %s", text)
	}
}

// Services of other processes that answer no list, nothing, or are away are told as unknown; the rest of the
// status stands.
func TestStatusWhereAnotherProcessGivesNoAnswer(t *testing.T) {
	t.Parallel()
	fails := httptest.NewServer(says(http.StatusInternalServerError, "[]"))
	defer fails.Close()
	hangs := httptest.NewServer(http.HandlerFunc(silent))
	defer hangs.Close()
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	asks := elsewhere(t, "payment="+fails.URL, "inventory="+hangs.URL, "fulfilment="+away.URL)
	d := place.SQLite(t.TempDir())
	s := openWith(t, d, &service.Options{Held: d.Held("", asks)}, "order")
	s.order(1, 1)
	now, text := s.status(onlyOrder(t, d), "payment", "inventory", "fulfilment")
	if now.State != order.Pending || len(now.History) != 1 || len(now.Held) != 3 {
		t.Fatalf("the status is %s", text)
	}
	for i, at := range []string{fails.URL, hangs.URL, away.URL} {
		h := now.Held[i]
		if h.Service != service.Names()[i+1] || h.Consumer != h.Service || h.State != "unknown" || !strings.Contains(h.Why, at) {
			t.Errorf("%s is told as %+v", service.Names()[i+1], h)
		}
	}
}

// Whatever comes back but a list of what holds the order there, the service is told as unknown, and why.
func TestOtherProcessIsUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers http.HandlerFunc
		why     string
	}{
		"an error":              {says(http.StatusInternalServerError, "[]"), "500 Internal Server Error"},
		"not there":             {place.SQLite(t.TempDir()).Answer("").ServeHTTP, "404 Not Found"},
		"no JSON":               {says(http.StatusOK, "<html>"), "read its answer"},
		"more than JSON":        {says(http.StatusOK, "[] []"), "read its answer"},
		"another type":          {says(http.StatusOK, `{"held": []}`), "read its answer"},
		"nothing":               {says(http.StatusOK, "null"), "no list"},
		"of another service":    {says(http.StatusOK, `[{"service": "inventory", "state": "parked"}]`), "no list"},
		"of something else":     {says(http.StatusOK, `[{"colour": "red"}]`), "no list"},
		"too much":              {says(http.StatusOK, "["+strings.Repeat(" ", 1<<20)+"]"), "more than 1048576 bytes"},
		"silent":                {silent, late},
		"silent after it began": {begins, late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := httptest.NewServer(c.answers)
			defer answers.Close()
			if h := unknownAt(t, answers.URL, c.why); !strings.Contains(h.Why, c.why) || !strings.Contains(h.Why, answers.URL) || strings.Contains(h.Why, "\n") {
				t.Errorf("payment is told as %+v, want %q", h, c.why)
			}
		})
	}
}

// late is what is told of who gives no answer in time.
const late = "no answer: context deadline exceeded"

func says(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	}
}

// silent gives no answer as long as it is asked.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// begins an answer that has no end.
func begins(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, "[")
	_ = http.NewResponseController(w).Flush()
	silent(w, r)
}

// unknownAt is what is told of Payment, asked at this address alone. On a slow machine an answer is late at
// first; one that is to be late has no time.
func unknownAt(t *testing.T, at, why string) order.Held {
	t.Helper()
	find := place.SQLite(t.TempDir()).Held("", elsewhere(t, "payment="+at))
	for end := time.Now().Add(most); ; {
		ctx, stop := t.Context(), context.CancelFunc(func() {})
		if why == late {
			ctx, stop = context.WithTimeout(ctx, 50*time.Millisecond)
		}
		held, err := find(ctx, "o-1")
		stop()
		if len(held) != 1 || held[0].Service != "payment" || held[0].State != "unknown" {
			t.Fatalf("held by %+v, %v", held, err)
		}
		if why == late || !strings.Contains(held[0].Why, late) || time.Now().After(end) {
			return held[0]
		}
	}
}

// Order does not wait longer than whoever asks it: the context of the request ends the question to another
// process.
func TestStatusEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan struct{})
	answers := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leave()
		<-r.Context().Done()
		close(ended)
	}))
	defer answers.Close()
	d := place.SQLite(t.TempDir())
	held, err := d.Held("", elsewhere(t, "payment="+answers.URL))(ctx, "o-1")
	if err == nil || !errors.Is(err, context.Canceled) || len(held) != 1 || held[0].State != "unknown" {
		t.Errorf("held by %+v, %v", held, err)
	}
	<-ended
}

// A process answers for what it serves, one or all of it, and says so if it is its database that is away;
// what is open here is asked nowhere else.
func TestAnswerOfAProcess(t *testing.T) {
	t.Parallel()
	d := place.SQLite(t.TempDir())
	openWith(t, d, &service.Options{}, "payment", "inventory")
	for _, name := range []string{"payment", "inventory"} {
		home, err := d.Home(t.Context(), name)
		if err == nil {
			err = home.Make(t.Context(), "ALTER TABLE skald_parked RENAME TO gone")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ask := func(path string) (code int, held []order.Held) {
		t.Helper()
		w := httptest.NewRecorder()
		d.Answer("").ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if err := json.Unmarshal(w.Body.Bytes(), &held); err != nil && w.Code == http.StatusOK {
			t.Fatalf("%s: %v: %s", path, err, w.Body)
		}
		return w.Code, held
	}
	if code, held := ask("/held/o-1"); code != http.StatusOK || len(held) != 2 || held[0].Service != "payment" || held[1].Service != "inventory" {
		t.Errorf("all: %d, %+v", code, held)
	}
	if code, held := ask("/held/o-1?service=inventory"); code != http.StatusOK || len(held) != 1 || held[0].Service != "inventory" || held[0].State != "unknown" {
		t.Errorf("inventory: %d, %+v", code, held)
	}
	if code, _ := ask("/held/o-1?service=order"); code != http.StatusNotFound {
		t.Errorf("order, which is not here: %d", code)
	}
	answers := httptest.NewServer(d.Answer(""))
	defer answers.Close()
	if h := unknownAt(t, answers.URL, ""); h.Why != "its database gave no answer" {
		t.Errorf("held by %+v", h)
	}
	held, err := d.Held("", elsewhere(t, "payment=http://127.0.0.1:1"))(t.Context(), "o-1")
	if err == nil || len(held) != 2 || held[0].Why != "its database gave no answer" {
		t.Errorf("held by %+v, %v", held, err)
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
	if len(e) != 2 || *e["payment"] != (url.URL{Scheme: "http", Host: "127.0.0.1:9191"}) {
		t.Errorf("%v", e)
	}
	for text, want := range map[string]string{
		"":                                 "NAME=URL",
		"shoes=http://h:1":                 "NAME one of order, payment",
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
