package console_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// browser sends requests to a console from this machine.
type browser struct {
	*testing.T
	h http.Handler
}

func open(t *testing.T, sources map[string]console.Source, o *console.Options) browser {
	t.Helper()
	if o == nil {
		o = &console.Options{}
	}
	if o.Deadline == 0 { // the default of 2 s is too short for a large message on a slow machine
		o.Deadline = 5 * time.Minute
	}
	o.Logger = slog.New(slog.DiscardHandler)
	return browser{t, console.New("/ops", sources, o)}
}

func of(db store.Driver[*memstore.Tx]) map[string]console.Source {
	return map[string]console.Source{"orders": console.NewSource(db).WithFlags("--store @orders.url")}
}

// do sends a request; headers alternates names and values.
func (b browser) do(method, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	b.Helper()
	r := httptest.NewRequestWithContext(b.Context(), method, "http://127.0.0.1:7780/ops"+path,
		strings.NewReader(form.Encode()))
	r.RemoteAddr = "127.0.0.1:4711"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://127.0.0.1:7780")
	}
	r.Header.Set("Accept", "text/html")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	w := httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	return w
}

// page returns a page, and fails the test without status 200.
func (b browser) page(path string) string {
	b.Helper()
	w := b.do(http.MethodGet, path, nil)
	if w.Code != http.StatusOK {
		b.Fatalf("GET %s: %d: %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// get reads the JSON of a page.
func (b browser) get(path string, into any) {
	b.Helper()
	w := b.do(http.MethodGet, path, nil, "Accept", "application/json")
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil || w.Code != http.StatusOK {
		b.Fatalf("GET %s: %d: %s: %v", path, w.Code, w.Body, err)
	}
}

// form returns the values that the page's form would send to action.
func (b browser) form(page, action string) url.Values {
	b.Helper()
	_, rest, ok := strings.Cut(page, `action="/ops`+action+`"`)
	if !ok {
		b.Fatalf("no form for %s in %s", action, page)
	}
	rest, _, _ = strings.Cut(rest, "</form>")
	v := url.Values{}
	for _, m := range regexp.MustCompile(
		`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(rest, -1) {
		v.Set(m[1], unescape(m[2]))
	}
	return v
}

func unescape(s string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&#34;", `"`, "&#39;", "'", "&amp;", "&").Replace(s)
}

// act loads the page of a verb and sends its form. It returns the answer.
func (b browser) act(query string, more ...string) *httptest.ResponseRecorder {
	b.Helper()
	form := b.form(b.page("/act?"+query), "/act")
	form.Set("reason", "the bank is back")
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return b.do(http.MethodPost, "/act", form)
}

// parkedMessage returns a message for the consumer payment.
func parkedMessage(id, key string) store.Parked {
	m := skald.Message{ID: id, Source: "/shop", Topic: "orders", Type: "order.placed", Key: []byte(key),
		CorrelationID: "c-" + key, ContentType: "application/json",
		Data: []byte(`{"card":"4711"}`), Headers: []skald.Header{{Name: "tenant", Value: []byte("blue")}},
		Time: time.Now().UTC().Truncate(time.Microsecond)}
	return store.Parked{Consumer: "payment", Identity: store.Identity{Source: "/shop", ID: id}, Message: m,
		Attempts: 3,
		Last:     store.Failure{At: time.Now(), Why: "no route to the bank\nand more", Host: "pod-1"}}
}

func dead(id, key, fingerprint string) store.Parked {
	p := parkedMessage(id, key)
	p.Dead = &store.Death{At: time.Now().UTC().Truncate(time.Microsecond), Kind: "attempts",
		Fingerprint: fingerprint, BlocksKey: true}
	return p
}

func keep(t testing.TB, db store.Store, list ...store.Parked) {
	t.Helper()
	for _, p := range list {
		apply(t, db, store.Effect{Park: &store.Park{Parked: p}})
	}
}

func apply(t testing.TB, db store.Store, e store.Effect) {
	t.Helper()
	stood, err := db.Apply(t.Context(), e)
	if err != nil || !stood[0] {
		t.Fatal(stood, err)
	}
}

const failing = "0123456789ab"

// kept returns a database with dead letters of two kinds and a parked message.
func kept(t testing.TB, n int) *memstore.Store {
	t.Helper()
	db := memstore.New(nil)
	for i := range n {
		keep(t, db, dead(fmt.Sprint("d-", i), fmt.Sprint("k-", i), failing))
	}
	keep(t, db, dead("other", "k-other", "ba9876543210"), parkedMessage("p-1", "k-p"))
	return db
}

// state returns the state of a message in the database.
func state(t testing.TB, db store.Store, id string) string {
	t.Helper()
	list, err := store.ListParked(t.Context(), db,
		store.ParkedQuery{Consumer: "payment", Identity: &store.Identity{Source: "/shop", ID: id}})
	switch {
	case err != nil:
		t.Fatal(err)
	case len(list) == 0:
		return "gone"
	case list[0].Dead != nil:
		return "dead"
	}
	return fmt.Sprint("parked ", list[0].Attempts)
}

func audits(t testing.TB, db store.Store) (out []string) {
	t.Helper()
	list, err := db.Audits(t.Context(), store.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		action, _, _ := strings.Cut(a.Action, " begun: ")
		out = append(out, fmt.Sprintf("%s %s %s %s", a.Author, action, a.ID, a.Reason))
	}
	return out
}
