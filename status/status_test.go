package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/status"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

func event(name string) skald.Event[string] { return skald.Event[string]{Topic: "orders", Type: name} }

// tracked returns a database with a saga that waits for a payment.
func tracked(t *testing.T) *memstore.Store {
	t.Helper()
	f, err := flow.New("order", flow.From(event("order.placed")), flow.Then(event("order.placed"),
		event("payment.taken")).Within(time.Minute), flow.End(event("payment.taken")))
	if err != nil {
		t.Fatal(err)
	}
	db := memstore.New(nil)
	tx := db.BeginTx()
	tracker := flow.NewTracker(f, db, &flow.Options{Key: func(m skald.Message) string { return m.Subject }})
	err = tracker.Handle(t.Context(), tx,
		[]skald.Message{{ID: "m-1", Source: "/shop", Topic: "orders", Type: "order.placed", Subject: "o-1",
			Key:  []byte("k <1>"),
			Time: time.Now().Add(-time.Hour)}})
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// keep parks a message of a key. If death is set, it makes the message a dead letter. If apart is true, it
// puts the message into quarantine.
func keep(t *testing.T, db *memstore.Store, id, key string, death *store.Death, apart bool) {
	t.Helper()
	m := skald.Message{ID: id, Source: "/shop", Topic: "orders", Type: "order.placed", Key: []byte(key)}
	e := store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "payment",
		Identity: store.Identity{Source: "/shop", ID: id}, Message: m, Attempts: 3,
		Last: store.Failure{At: time.Now(), Why: "no route to the bank\nand more"}, Dead: death}}}
	if apart {
		e = store.Effect{Quarantine: &store.Quarantined{Consumer: "payment",
			Identity: store.Identity{Source: "/shop", ID: id}, Why: store.Conflict, Message: m}}
	}
	stood, err := db.Apply(t.Context(), e)
	if err != nil || !stood[0] {
		t.Fatal(stood, err)
	}
}

func handler(t *testing.T, db store.Lister, o status.Options) http.Handler {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	h, err := status.Handler(db, &o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(t *testing.T, h http.Handler, path string, header ...string) (code int, text string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+path, http.NoBody)
	r.RemoteAddr = "127.0.0.1:4711"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func answer(t *testing.T, h http.Handler, key string) (code int, a status.Answer) {
	t.Helper()
	code, text := get(t, h, "/"+key)
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%d %s: %v", code, text, err)
	}
	return code, a
}

// TestAcrossServices checks the answer if the saga is at one service and a message that blocks it at another.
func TestAcrossServices(t *testing.T) {
	orders, payment, stock := tracked(t), memstore.New(nil), memstore.New(nil)
	keep(t, payment, "m-1", "k <1>", nil, false)
	keep(t, payment, "m-2", "another", nil, false)
	keep(t, stock, "m-1", "k <1>", &store.Death{At: time.Now(), Kind: "attempts", BlocksKey: true}, false)
	keep(t, stock, "m-9", "k <1>", nil, true)
	at := httptest.NewServer(handler(t, payment,
		status.Options{Service: "payment", Store: "--store @payment.url"}))
	defer at.Close()
	beside := httptest.NewServer(http.StripPrefix("/status",
		handler(t, stock, status.Options{Service: "stock"})))
	defer beside.Close()
	h := handler(t, orders, status.Options{Service: "orders",
		Services: map[string]string{"payment": at.URL, "stock": beside.URL + "/status"}})
	code, a := answer(t, h, "o-1")
	if code != http.StatusOK || len(a.Sagas) != 1 || a.Sagas[0].State != flow.Running ||
		!a.Sagas[0].Overdue || a.Sagas[0].Waiting[0].For[0] != "payment.taken" ||
		a.Sagas[0].Service != "orders" {
		t.Fatalf("%d: %+v", code, a)
	}
	var got []string
	for _, one := range a.Held {
		got = append(got, fmt.Sprint(one.Service, " ", one.State, " ", one.ID, " ", one.LastError,
			" ", one.Command))
		if one.ShowCommand != "" {
			got = append(got, one.Doubt()+": "+one.ShowCommand)
		}
	}
	want := []string{
		"payment parked m-1 no route to the bank skald parked release --store @payment.url --consumer payment --key 'k <1>' --reason 'the cause is gone'",
		"stock dead m-1 no route to the bank skald dead redrive --consumer payment --source /shop --reason 'the cause is gone' -- m-1",
		"stock quarantined m-9  skald inbox admit --number 1 --reason 'a message of its own'",
		"another message with its id and another payload was handled before: " +
			"skald inbox show --consumer payment --source /shop -- m-9",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(a.Silent) > 0 {
		t.Errorf("held up by\n%s\nwant\n%s\nsilent: %v", strings.Join(got, "\n"),
			strings.Join(want, "\n"), a.Silent)
	}
	here := handler(t, orders, status.Options{Service: "orders",
		Services:  map[string]string{"payment": at.URL},
		Databases: map[string]status.Database{"stock": {DB: stock}}})
	if _, same := answer(t, here, "o-1"); fmt.Sprint(same.Held) != fmt.Sprint(a.Held) ||
		len(same.Silent) > 0 || len(same.Sagas) != 1 {
		t.Errorf("one of them in this process: %+v\nwant %+v", same, a)
	}
	if _, err := status.Handler(orders, &status.Options{Services: map[string]string{"stock": at.URL},
		Databases: map[string]status.Database{"stock": {DB: stock}}}); err == nil {
		t.Error("a service that is asked twice was taken")
	}
	code, text := get(t, h, "/o-1", "Accept", "text/html,application/xhtml+xml")
	for _, part := range []string{"<h2>order: running, overdue</h2>",
		"waits for <b>payment.taken</b> after order.placed", "Held up at payment",
		"--key &#39;k &lt;1&gt;&#39;"} {
		if code != http.StatusOK || !strings.Contains(text, part) {
			t.Errorf("%d: there is no %q in %s", code, part, text)
		}
	}
	if code, _ := answer(t, h, "o-2"); code != http.StatusNotFound {
		t.Errorf("of an order that nobody knows: %d", code)
	}
}

// TestSilent checks that the answer names services that are down, are slow, answer for another key, or send
// something else. The rest of the answer is complete.
func TestSilent(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	servers := map[string]string{"away": away.URL}
	for name, h := range map[string]http.HandlerFunc{
		"slow": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"other": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"key":"o-2","sagas":[],"held":[]}`)
		},
		"page":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `<html>`) },
		"refuses": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
		"endless": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<20)) },
	} {
		s := httptest.NewServer(h)
		defer s.Close()
		servers[name] = s.URL
	}
	h := handler(t, tracked(t), status.Options{Services: servers, Deadline: time.Second})
	code, a := answer(t, h, "o-1")
	var names []string
	for _, s := range a.Silent {
		names = append(names, s.Service)
		if s.Service == "slow" && s.Why != "no answer within 1s" {
			t.Errorf("slow: %s", s.Why)
		}
	}
	if fmt.Sprint(names) != "[away endless other page refuses slow]" || code != http.StatusOK ||
		len(a.Sagas) != 1 {
		t.Errorf("%d: silent are %v, sagas %v", code, names, a.Sagas)
	}
	if code, _ := answer(t, h, "o-2"); code != http.StatusServiceUnavailable {
		t.Errorf("nothing is known, and some are silent: %d", code)
	}
	broken := handler(t, failing{}, status.Options{})
	if code, a := answer(t, broken, "o-1"); code != http.StatusServiceUnavailable || len(a.Silent) != 1 ||
		strings.Contains(fmt.Sprint(a.Silent), "secret") {
		t.Errorf("without a database: %d, %v", code, a.Silent)
	}
}

type failing struct{}

// hanging is a database that does not answer.
type hanging struct{}

func (hanging) List(ctx context.Context, _ store.List) (store.Listed, error) {
	<-ctx.Done()
	return store.Listed{}, ctx.Err()
}

func (failing) List(context.Context, store.List) (store.Listed, error) {
	return store.Listed{}, fmt.Errorf("dial secret: refused")
}

// TestWhoMayAsk checks that the handler accepts only this machine without Auth, and the requests that Auth
// accepts otherwise.
func TestWhoMayAsk(t *testing.T) {
	db := tracked(t)
	h := handler(t, db, status.Options{})
	for _, strange := range [][2]string{{"X-Forwarded-For", "10.0.0.1"}, {"Forwarded", "for=10.0.0.1"}} {
		if code, _ := get(t, h, "/o-1", strange[0], strange[1]); code != http.StatusForbidden {
			t.Errorf("%s: %d", strange, code)
		}
	}
	open := handler(t, db, status.Options{Auth: func(next http.Handler) http.Handler { return next }})
	for _, c := range []struct {
		h            http.Handler
		remote, host string
		want         int
	}{
		{h, "127.0.0.1:1", "localhost:8080", http.StatusOK}, {h, "[::1]:1", "[::1]:80", http.StatusOK},
		{h, "[::1]:1", "[::1]", http.StatusOK},
		{h, "10.0.0.1:1", "localhost", http.StatusForbidden}, {h, "127.0.0.1:1", "rebound.example",
			http.StatusForbidden}, {open, "10.0.0.1:1", "shop.example", http.StatusOK},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/o-1", http.NoBody)
		r.RemoteAddr, r.Host = c.remote, c.host
		w := httptest.NewRecorder()
		if c.h.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("from %s for %s: %d, want %d", c.remote, c.host, w.Code, c.want)
		}
	}
	for _, at := range []string{"payment:8080", "ftp://payment", "http://payment/?x=1"} {
		if _, err := status.Handler(db,
			&status.Options{Services: map[string]string{"payment": at}}); err == nil {
			t.Errorf("%s was taken for a URL", at)
		}
	}
}

// TestBadKeys checks that the handler refuses invalid keys, and does not report a service as silent because
// of them.
func TestBadKeys(t *testing.T) {
	other := httptest.NewServer(handler(t, memstore.New(nil), status.Options{Service: "payment"}))
	defer other.Close()
	h := handler(t, tracked(t), status.Options{Services: map[string]string{"payment": other.URL}})
	for _, key := range []string{"%ff", "%00", strings.Repeat("k", 1025)} {
		for _, path := range []string{"/" + key, "/" + key + "/held"} {
			if code, text := get(t, h, path); code != http.StatusBadRequest ||
				!strings.Contains(text, "UTF-8") {
				t.Errorf("%.20s: %d %s", path, code, text)
			}
		}
	}
	for _, key := range []string{"a%2Fb", "%3Cscript%3E", "..%2f..", strings.Repeat("k", 1024)} {
		if code, a := answer(t, h, key); code != http.StatusNotFound || len(a.Silent) > 0 {
			t.Errorf("%.20s: %d, silent are %v", key, code, a.Silent)
		}
	}
}

func TestAsk(t *testing.T) {
	db := tracked(t)
	keep(t, db, "m-7", "o-1", nil, false) // the key of the saga is taken for that of its messages, too
	a, err := status.Ask(t.Context(), db, "o-1", "--store @x")
	if err != nil || !a.Known() || len(a.Sagas) != 1 || len(a.Held) != 1 || a.Held[0].BlockingMessage.ID != "m-7" {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err = status.Ask(t.Context(), db, "o-2", ""); err != nil || a.Known() {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestOwnDatabaseHangs checks that the handler queries the other services if its own database hangs.
func TestOwnDatabaseHangs(t *testing.T) { synctest.Test(t, ownDatabaseHangs) }

func ownDatabaseHangs(t *testing.T) {
	other := direct{handler(t, tracked(t), status.Options{Service: "orders"})}
	h := handler(t, hanging{}, status.Options{Service: "payment",
		Services: map[string]string{"orders": "http://localhost"}, Client: &http.Client{Transport: other},
		Deadline: 10 * time.Second})
	code, a := answer(t, h, "o-1")
	if code != http.StatusOK || len(a.Sagas) != 1 || len(a.Silent) != 1 || a.Silent[0].Service != "payment" ||
		a.Silent[0].Why != "no answer within 5s" {
		t.Errorf("%d: sagas %v, silent %v", code, a.Sagas, a.Silent)
	}
}

// direct answers requests without a network, so that their waits use the clock of synctest.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	r, w := r.Clone(r.Context()), httptest.NewRecorder()
	r.RemoteAddr = "127.0.0.1:1"
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestDotsAreNoKey checks that dots are refused as a key, because they would change the path.
func TestDotsAreNoKey(t *testing.T) {
	asked := httptest.NewServer(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s is asked", r.URL) }))
	defer asked.Close()
	h := handler(t, tracked(t), status.Options{Services: map[string]string{"payment": asked.URL + "/status"}})
	for _, path := range []string{"/%2E", "/%2E%2E", "/%2E/held", "/%2E%2E/held"} {
		if code, _ := get(t, h, path); code == http.StatusOK || code == http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestAcceptsHTML(t *testing.T) {
	h := handler(t, tracked(t), status.Options{})
	for accept, page := range map[string]bool{"": false, "*/*": false, "application/json": false,
		"text/html;q=0": false, "text/html;q=0.0, */*": false, "text/html": true,
		"application/json, TEXT/HTML ; q=0.5": true, "text/htmlx": false} {
		if _, text := get(t, h, "/o-1", "Accept", accept); strings.HasPrefix(text, "<!") != page {
			t.Errorf("%q: %.80s", accept, text)
		}
	}
}

// TestManyKeys checks that many keys are queried in several requests, and that a key that is too long does
// not prevent the answer for the others.
func TestManyKeys(t *testing.T) {
	orders, payment := memstore.New(nil), memstore.New(nil)
	keep(t, payment, "m-1", "k-7-7", nil, false)
	other := httptest.NewServer(handler(t, payment, status.Options{Service: "payment"}))
	defer other.Close()
	event := skald.Event[string]{Topic: "orders", Type: "order.placed"}
	for n := range 9 {
		f, err := flow.New(fmt.Sprint("order-", n), flow.From(event), flow.End(event))
		if err != nil {
			t.Fatal(err)
		}
		tracker := flow.NewTracker(f, orders, &flow.Options{Key: func(skald.Message) string { return "o-1" }})
		var all []skald.Message
		for i := range 8 {
			key := fmt.Sprintf("k-%d-%d", n, i)
			if n == 8 && i == 0 {
				key = strings.Repeat("k", 1025)
			}
			all = append(all, skald.Message{Topic: "orders", Type: "order.placed", Source: "/shop", ID: key,
				Key: []byte(key)})
		}
		tx := orders.BeginTx()
		if err := errors.Join(tracker.Handle(t.Context(), tx, all), tx.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	h := handler(t, orders, status.Options{Service: "orders",
		Services: map[string]string{"payment": other.URL}})
	if code, a := answer(t, h, "o-1"); code != http.StatusOK || len(a.Silent) > 0 || len(a.Held) != 1 ||
		len(a.Sagas) != 9 {
		t.Errorf("%d: silent %v, held %v, %d sagas", code, a.Silent, a.Held, len(a.Sagas))
	}
}
