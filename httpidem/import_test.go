package httpidem_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// After an import from another key table, the endpoint replays the imported answers, also refusals and
// answers that were too large. The work is not done again.
func TestImportedAnswers(t *testing.T) {
	everywhere(t, func(t *testing.T) { testImported(t, inMemory(t)) },
		func(t *testing.T) { testImported(t, onSQLite(t)) },
		func(t *testing.T) { testImported(t, onPgx(t)) },
		func(t *testing.T) { testImported(t, onDatabaseSQL(t)) })
}

func testImported[TTx any](t *testing.T, g *ground[TTx]) {
	kept := func(code int, header http.Header, body string) *once.Answer {
		a, err := httpidem.Answered(code, header, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return &a
	}
	theirs := []inbox.Finished{
		{Identity: store.Identity{ID: "made"},
			Answer: kept(201, http.Header{"Location": {"/orders/7"}, "Set-Cookie": {"s=1"}}, `{"ID":"o-7"}`)},
		{Identity: store.Identity{ID: "refused"},
			Answer: kept(402, http.Header{"Content-Type": {"application/problem+json"}},
				`{"title":"declined"}`)},
		{Identity: store.Identity{ID: "large"}, Answer: kept(200, http.Header{"Location": {"/orders/8"}},
			strings.Repeat("x", 100<<10))},
		{Identity: store.Identity{ID: "bare"}},
	}
	list := func(yield func(inbox.Finished, error) bool) {
		for _, f := range theirs {
			if !yield(f, nil) {
				return
			}
		}
	}
	for _, want := range []inbox.Imported{{New: 4}, {Existing: 4}} {
		if did, err := inbox.Import(t.Context(), g.db, httpidem.Scope("orders"), "ann", "cut-over",
			list); err != nil || did != want {
			t.Fatalf("%+v, %v, want %+v", did, err, want)
		}
	}
	s := &shop[TTx]{ground: g}
	h := s.endpoint(quiet())
	w := post{key: "made", body: `{"SKU":"tea"}`}.to(h)
	answers(t, w, 201, `{"ID":"o-7"}`)
	replayed(t, w, true)
	if w.Header().Get("Location") != "/orders/7" || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("headers %v", w.Header())
	}
	answers(t, post{key: "refused", body: `{"SKU":"tea"}`}.to(h), 402, "declined")
	answers(t, post{key: "large", body: `{"SKU":"tea"}`}.to(h), 409, "/orders/8")
	answers(t, post{key: "bare", body: `{"SKU":"tea"}`}.to(h), 409, "not known here")
	s.wantList(t, "placed", "")
	answers(t, post{key: "new", body: `{"SKU":"tea"}`}.to(h), 201, "o-1")
	for text, want := range map[string]string{`"a\"b"`: `a"b`, "a,b": "a,b", `"open`: "", "two\nlines": "",
		strings.Repeat("k", 256): "", "": ""} {
		if key, err := httpidem.Key(text); key != want || (err == nil) != (want != "") {
			t.Errorf("the key of %.20q is %q, %v", text, key, err)
		}
	}
	for _, h := range []http.Header{{"A\nB": {"x"}}, {"A": {"x\r\nSet-Cookie: y"}}, {"": {"x"}}} {
		if _, err := httpidem.Answered(200, h, nil); err == nil {
			t.Errorf("the header %q was taken", h)
		}
	}
	for _, code := range []int{0, 100, 409, 500} {
		if _, err := httpidem.Answered(code, nil, nil); err == nil {
			t.Errorf("an answer of %d was taken", code)
		}
	}
	brief := []inbox.Finished{{Identity: store.Identity{ID: "brief"}, Answer: kept(201, nil, `{"ID":"o-9"}`),
		Keep: 1}}
	theirs = brief
	if did, err := inbox.Import(t.Context(), g.db, httpidem.Scope("orders"), "ann", "cut-over",
		list); err != nil || did.New != 1 {
		t.Errorf("%+v, %v", did, err)
	}
	o := quiet()
	o.Keep = time.Hour // its time, of a nanosecond, is over: the key is fresh
	w = post{key: "brief", body: `{"SKU":"salt"}`}.to(s.endpoint(o))
	answers(t, w, 201, `{"ID":"o-2"}`)
	replayed(t, w, false)
	theirs = []inbox.Finished{{Identity: store.Identity{ID: "never"}, Keep: -1}}
	if _, err := inbox.Import(t.Context(), g.db, httpidem.Scope("orders"), "ann", "cut-over",
		list); err == nil {
		t.Error("a Keep below 0 is taken")
	}
	bad := []inbox.Finished{{Identity: store.Identity{ID: "k"},
		Answer: &once.Answer{Result: strings.Repeat("x", once.MaxResult+1)}}}
	theirs = bad
	if _, err := inbox.Import(t.Context(), g.db, httpidem.Scope("orders"), "ann", "cut-over",
		list); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too large: %v", err)
	}
}
