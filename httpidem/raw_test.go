package httpidem_test

import (
	"database/sql"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/once"
)

// A replay has headers that are not UTF-8 unchanged. It has no cookie, for any case of the header's name.
func TestRawHeaders(t *testing.T) {
	everywhere(t, func(t *testing.T) { testRaw[mem](t, inMemory(t)) },
		func(t *testing.T) { testRaw[*sql.Tx](t, onSQLite(t)) },
		func(t *testing.T) { testRaw[pgx.Tx](t, onPgx(t)) },
		func(t *testing.T) { testRaw[*sql.Tx](t, onDatabaseSQL(t)) })
}

func testRaw[TTx any](t *testing.T, g *ground[TTx]) {
	header := http.Header{"X-Sig": {"caf\xe9", "plain"}, "set-cookie": {"session=1"}, "DATE": {"then"},
		"x-two": {"2"}, "X-Two": {"1"}, "X-Plain": {"größe"}}
	s := &shop[TTx]{ground: g, answer: func() (httpidem.Reply[view], error) {
		return httpidem.Reply[view]{Code: 201, Header: header, Body: view{"o-1"}}, nil
	}}
	p := post{key: "k", body: `{"SKU":"tea"}`}
	if w := p.to(s.endpoint(quiet())); w.Code != 201 || len(w.Header()[strings.ToLower("Set-Cookie")]) != 1 {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	one := s.endpoint(quiet())
	for range 2 { // of the database, and of memory or the database
		w := p.to(one)
		answers(t, w, 201, "o-1")
		replayed(t, w, true)
		for name, want := range map[string][]string{"X-Sig": {"caf\xe9", "plain"}, "X-Two": {"1", "2"},
			"X-Plain": {"größe"}} {
			if got := w.Header()[name]; !slices.Equal(got, want) {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		for name := range w.Header() {
			if name = http.CanonicalHeaderKey(name); name == "Set-Cookie" || name == "Date" {
				t.Errorf("%s was stored: %q", name, w.Header())
			}
		}
	}
	s.wantList(t, "placed", "tea")
	header = http.Header{"location": {"/orders/8"}, "X-Sig": {"caf\xe9"}}
	s.answer = func() (httpidem.Reply[view], error) {
		return httpidem.Reply[view]{Header: header, Body: view{strings.Repeat("x", once.MaxResult)}}, nil
	}
	p.key = "large"
	p.to(s.endpoint(quiet()))
	answers(t, p.to(s.endpoint(quiet())), 409, `"instance":"/orders/8"`)
}

// TestBodyThatIsNotUTF8 checks that a body which JSON would change is an error, and that nothing of its
// request is stored.
func TestBodyThatIsNotUTF8(t *testing.T) {
	g := inMemory(t)
	body := "caf\xe9"
	s := &shop[mem]{ground: g, answer: func() (httpidem.Reply[view], error) {
		return httpidem.OK(view{body}), nil
	}}
	p := post{key: "k", body: `{"SKU":"tea"}`}
	var log strings.Builder
	one := s.endpoint(&httpidem.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if w := p.to(one); w.Code != 500 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, part := range []string{"the reply", "not UTF-8", "[]byte"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log has no %q: %s", part, &log)
		}
	}
	s.wantList(t, "placed", "")
	body = "caf\uFFFD" // a character of its own
	answers(t, p.to(one), 200, body)
	s.wantList(t, "placed", "tea")
}
