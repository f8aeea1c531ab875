package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// Without a login only direct requests from this machine are answered: no proxy, and no other host name.
func TestLoopback(t *testing.T) {
	b := open(t, of(kept(t, 0)), nil)
	for _, c := range []struct {
		remote, host, header string
		want                 int
	}{
		{"127.0.0.1:1", "localhost:7780", "", 200}, {"[::1]:1", "[::1]:7780", "", 200},
		{"10.0.0.1:1", "localhost", "", 403},
		{"127.0.0.1:1", "rebound.example", "", 403}, {"127.0.0.1:1", "localhost", "X-Forwarded-For", 403},
		{"127.0.0.1:1", "localhost", "Forwarded", 403},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ops/", http.NoBody)
		if r.RemoteAddr, r.Host = c.remote, c.host; c.header != "" {
			r.Header.Set(c.header, "for=10.0.0.1")
		}
		w := httptest.NewRecorder()
		if b.h.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("from %s to %s %s: %d, want %d", c.remote, c.host, c.header, w.Code, c.want)
		}
	}
}

// A user without a right cannot see or do it, even with the right URL.
func TestRights(t *testing.T) {
	db := kept(t, 1)
	who := console.User{}
	b := open(t, of(db), &console.Options{User: func(r *http.Request) (console.User, error) {
		if r.Header.Get("X-User") == "nobody" {
			return who, errors.New("secret: no such user")
		}
		return who, nil
	}})
	const message = "/message?consumer=payment&id=d-0&in=orders&source=%2Fshop"
	const drop = "/act?consumer=payment&id=d-0&in=orders&source=%2Fshop&verb=drop"
	who = console.User{Name: "ann", May: console.View | console.Act | console.Payloads}
	form := b.form(b.page(drop), "/act")
	form.Set("reason", "why not")
	look := b.form(b.page(message), "/message/payload")
	who.May = console.View
	page := b.page(message)
	if strings.Contains(page, "Show it") || !strings.Contains(page, "you lack the right to see payloads") ||
		strings.Contains(page, `href="/ops/act`) {
		t.Errorf("%s", page)
	}
	for _, c := range []struct {
		may          console.Right
		name, method string
		path         string
		form         url.Values
		says         string
	}{
		{console.View, "ann", "GET", drop, nil, "ann lacks a right for this: act"},
		{console.View | console.Payloads, "ann", "POST", "/act", form, "lacks a right for this: act"},
		{console.View | console.Act, "ann", "POST", "/message/payload", look,
			"lacks a right for this: payloads"},
		{console.Act, "ann", "GET", "/", nil, "lacks a right for this: view"},
		{0, "", "GET", "/static/style.css", nil, "lacks a right for this: view"},
		{console.View | console.Act, " ", "POST", "/act", form, "an action needs a user name"},
		{console.View | console.Act, "ben", "POST", "/act", form, "the form is older"}, // it is ann's token
	} {
		who = console.User{Name: c.name, May: c.may}
		w := b.do(c.method, c.path, c.form)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s as %q with %d: %d: %s", c.method, c.path, c.name, c.may, w.Code, w.Body)
		}
	}
	w := b.do("GET", "/", nil, "X-User", "nobody")
	if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if state(t, db, "d-0") != "dead" || len(audits(t, db)) > 0 {
		t.Errorf("something was done: %v", audits(t, db))
	}
}

// A browser's requests from another site have no effect.
func TestForgedRequests(t *testing.T) {
	db := kept(t, 1)
	b := open(t, of(db), nil)
	form := b.form(b.page("/act?consumer=payment&id=d-0&in=orders&source=%2Fshop&verb=drop"), "/act")
	form.Set("reason", "why not")
	for name, c := range map[string]struct {
		headers []string
		token   string
		code    int
	}{
		"another origin":    {[]string{"Origin", "https://evil.example"}, form.Get("token"), 403},
		"no origin to tell": {[]string{"Origin", "null"}, form.Get("token"), 403},
		"another port":      {[]string{"Origin", "http://127.0.0.1:9999"}, form.Get("token"), 403},
		"cross-site":        {[]string{"Sec-Fetch-Site", "cross-site"}, form.Get("token"), 403},
		"same-site":         {[]string{"Sec-Fetch-Site", "same-site"}, form.Get("token"), 403},
		"no token":          {nil, "", 403},
		"another token":     {nil, "AAAA", 403},
		"a large form":      {nil, strings.Repeat("x", 100_000), 400},
	} {
		sent := url.Values{}
		for k, v := range form {
			sent[k] = v
		}
		sent.Set("token", c.token)
		if w := b.do(http.MethodPost, "/act", sent, c.headers...); w.Code != c.code {
			t.Errorf("%s: %d: %s", name, w.Code, w.Body)
		}
	}
	if w := b.do(http.MethodGet, "/act?"+form.Encode(), nil); w.Code != http.StatusOK {
		t.Errorf("a GET is a dry run: %d", w.Code)
	}
	if w := b.do(http.MethodPost, "/act?"+form.Encode(), nil); w.Code != http.StatusForbidden {
		t.Errorf("a token in the URL: %d", w.Code)
	}
	if state(t, db, "d-0") != "dead" || len(audits(t, db)) > 0 {
		t.Errorf("something was done: %v", audits(t, db))
	}
	if w := b.do(http.MethodPost, "/act", form); w.Code != http.StatusSeeOther ||
		state(t, db, "d-0") != "gone" {
		t.Errorf("the form itself: %d: %s", w.Code, w.Body)
	}
}

// Every answer, also an error, has the security headers.
func TestHeaders(t *testing.T) {
	b := open(t, of(kept(t, 1)), nil)
	for _, path := range []string{"/", "/message", "/nothing", "/static/live.js", "/static/../console.go",
		"/act?verb=drop&in=orders"} {
		head := b.do(http.MethodGet, path, nil).Header()
		policy := head.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; style-src 'self'; script-src 'self';") ||
			!strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %s", path, policy)
		}
		if head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Referrer-Policy") != "same-origin" ||
			!strings.HasPrefix(path, "/st") && head.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, head)
		}
	}
	for _, wrong := range []http.Handler{console.New("ops", of(memstore.New(nil)), nil),
		console.New("/ops/../x", of(memstore.New(nil)), nil), console.New("/ops", nil, nil),
		console.New("/ops", map[string]console.Source{"a b": {}}, nil)} {
		w := httptest.NewRecorder()
		if wrong.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ops/",
			http.NoBody)); w.Code != http.StatusInternalServerError {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	}
}

const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>' onmouseover='x`

// All content of a message is escaped, on every page and in every place.
func TestHostileTexts(t *testing.T) {
	db := memstore.New(nil)
	p := dead("evil"+evil, "key"+evil, failing)
	p.Consumer, p.Message.Type, p.Message.Subject, p.Message.CorrelationID, p.Message.TraceParent = "con"+
		evil, "type"+evil, "sub"+evil, "cor"+evil, "00-"+evil+"-b-c"
	p.Message.Topic, p.Message.ContentType, p.Message.Data = "topic"+evil, "text/plain"+evil,
		[]byte("data"+evil)
	p.Message.Headers = []skald.Header{{Name: "h" + evil, Value: []byte("v" + evil)}}
	p.Last.Why, p.First.Why, p.Last.Host, p.Dead.Kind, p.Dead.Stack, p.Dead.Version = "why"+evil,
		"first"+evil, "host"+evil, "kind"+evil, "stack"+evil, "v"+evil
	keep(t, db, p)
	parked := parkedMessage("parked"+evil, "k"+evil)
	parked.Consumer, parked.Last.Why = "con"+evil, "why"+evil
	keep(t, db, parked)
	apply(t, db, store.Effect{Quarantine: &store.Quarantined{Consumer: p.Consumer, Identity: p.Identity,
		Why: store.TooOld, Message: p.Message}})
	apply(t, db, store.Effect{Audit: &store.Audit{Author: "a" + evil, Reason: "r" + evil, Action: "act" +
		evil, Consumer: p.Consumer, Identity: p.Identity, Run: "run" + evil}})
	b := open(t, of(db),
		&console.Options{Links: map[string]string{"trace" + evil: "https://trace.example/{trace}?k={key}"}})
	ask := url.Values{"in": {"orders"}, "consumer": {p.Consumer}, "source": {p.Source}, "id": {p.ID}}.Encode()
	pages := map[string]string{}
	for _, path := range []string{"/", "/dead", "/dead?key=" + url.QueryEscape("key"+evil), "/parked",
		"/dead/groups", "/quarantine", "/audit", "/audit?has=" + url.QueryEscape(evil), "/message?" + ask,
		"/act?verb=drop&" + ask, "/act?verb=admit&number=1&in=orders", "/consumer?" + ask, "/runs"} {
		pages[path] = b.page(path)
	}
	form := b.form(pages["/message?"+ask], "/message/payload")
	pages["payload"] = b.do(http.MethodPost, "/message/payload", form).Body.String()
	if !strings.Contains(pages["payload"], "data&#34;&gt;&lt;script&gt;") {
		t.Errorf("the payload is not shown: %s", pages["payload"])
	}
	act := b.form(pages["/act?verb=drop&"+ask], "/act")
	act.Set("reason", "because "+evil)
	w := b.do(http.MethodPost, "/act", act)
	pages["run"] = b.page(strings.TrimPrefix(w.Header().Get("Location"), "/ops"))
	for _, path := range []string{"/act?verb=" + url.QueryEscape(evil) + "&in=orders", "/dead?in=" +
		url.QueryEscape(evil), "/run?in=orders&run=" + url.QueryEscape(evil)} {
		pages[path] = b.do(http.MethodGet, path, nil).Body.String()
	}
	for path, page := range pages {
		for _, part := range []string{"<script>alert", "<img", "onmouseover='"} {
			if strings.Contains(page, part) {
				t.Errorf("%s has %q: %s", path, part, page)
			}
		}
		if len(page) > 150_000 {
			t.Errorf("%s has %d bytes", path, len(page))
		}
	}
}

// The largest payload, and full lists, give small pages.
func TestWeight(t *testing.T) {
	db := memstore.New(nil)
	big := dead("big", "big", failing)
	big.Message.Data = []byte(`"` + strings.Repeat("<", 900<<10-2) + `"`)
	big.Last.Why = strings.Repeat("&", 4<<10)
	keep(t, db, big)
	for i := range 250 {
		p := dead(fmt.Sprint("d-", i), strings.Repeat("k", 1<<10), fmt.Sprintf("%012x", i))
		p.Last.Why = strings.Repeat("<", 4<<10)
		keep(t, db, p)
	}
	b := open(t, of(db), nil)
	page := b.page("/message?consumer=payment&id=big&in=orders&source=%2Fshop")
	shown := b.do(http.MethodPost, "/message/payload", b.form(page, "/message/payload")).Body
	list := b.page("/dead")
	if len(page) > 150_000 || len(list) > 150_000 || !strings.Contains(list, "The next ones") ||
		shown.Len() > 500_000 {
		t.Errorf("message %d, list %d, payload %d", len(page), len(list), shown.Len())
	}
	if !strings.Contains(shown.String(), "Only the first 64.0 KiB are shown") {
		t.Error("what is not shown is not said")
	}
	var got struct {
		Sources []struct {
			Messages []struct{ ID string }
			Next     int64
		}
	}
	seen := 0
	for path := "/dead"; ; path = fmt.Sprintf("/dead?in=orders&after=%d", got.Sources[0].Next) {
		got.Sources = nil
		b.get(path, &got)
		if seen += len(got.Sources[0].Messages); got.Sources[0].Next == 0 {
			break
		}
	}
	if seen != 251 {
		t.Errorf("%d messages on all pages", seen)
	}
}

// slow store answers only when its context ends, or not even then.
type slow struct {
	store.Driver[*memstore.Tx]
	deaf <-chan struct{} // ignores its context until closed; nil: it does not
}

func (s slow) Status(ctx context.Context, q store.StatusQuery) (store.Status, error) {
	if s.deaf != nil {
		<-s.deaf
	}
	<-ctx.Done()
	return store.Status{}, ctx.Err()
}

func (s slow) List(ctx context.Context, _ store.List) (store.Listed, error) {
	_, err := s.Status(ctx, store.StatusQuery{})
	return store.Listed{}, err
}

type broken struct{ store.Driver[*memstore.Tx] }

func (broken) Status(context.Context, store.StatusQuery) (store.Status, error) {
	return store.Status{}, errors.New("dial secret: refused")
}

func (broken) List(context.Context, store.List) (store.Listed, error) {
	return store.Listed{}, &store.SchemaError{Where: "the schema x", Have: 1, Need: 2, Last: 3,
		Remedy: "run: skald migrate"}
}

// An unavailable source is listed with the reason, and the others are shown. The test uses a fake clock, so
// a slow machine does not make a good source miss its deadline.
func TestUnavailableSources(t *testing.T) { synctest.Test(t, sourcesAway) }

func sourcesAway(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	b := open(t, map[string]console.Source{"orders": console.NewSource(kept(t, 1)),
		"slow":   console.NewSource(slow{memstore.New(nil), nil}),
		"deaf":   console.NewSource(slow{memstore.New(nil), over}),
		"broken": console.NewSource(broken{memstore.New(nil)}),
	}, &console.Options{Deadline: 200 * time.Millisecond})
	for path, why := range map[string]string{"/": "see the log of the console", "/dead": "version",
		"/dead/groups": "version"} {
		page := b.page(path)
		for _, part := range []string{"<b>slow</b> is unavailable: no answer within 200ms",
			"<b>deaf</b> is unavailable: no answer within 200ms", "<b>broken</b> is unavailable", why, "orders"} {
			if !strings.Contains(page, part) || strings.Contains(page, "secret") {
				t.Errorf("%s: no %q: %s", path, part, page)
			}
		}
		var got struct{ Away []console.Unreachable }
		if b.get(path, &got); len(got.Away) != 3 {
			t.Errorf("%s: %+v", path, got.Away)
		}
	}
	if w := b.do("GET", "/dead?in=nobody", nil); w.Code != http.StatusNotFound {
		t.Errorf("%d", w.Code)
	}
	if w := b.do("GET", "/message?in=slow&consumer=c&id=1", nil,
		"Accept", "application/json"); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	var others struct{ Away []console.Unreachable }
	for range 10 { // calls that never return use no more rooms than the limit
		b.get("/dead", &others)
	}
	if len(others.Away) != 3 {
		t.Errorf("%+v", others.Away)
	}
}

// uncountable is a store that cannot count sagas.
type uncountable struct{ store.Driver[*memstore.Tx] }

func (u uncountable) Status(ctx context.Context, q store.StatusQuery) (store.Status, error) {
	if q.Sagas {
		return store.Status{}, errors.New("dial secret: refused")
	}
	return u.Driver.Status(ctx, q)
}

// A failed count of sagas is reported, and hides no other figure of its source.
func TestSagasThatCannotBeCounted(t *testing.T) {
	page := open(t, of(uncountable{kept(t, 1)}), nil).page("/")
	for _, part := range []string{"SkaldSagasUncounted", "SkaldDead"} {
		if !strings.Contains(page, part) || strings.Contains(page, "secret") {
			t.Errorf("no %q: %s", part, page)
		}
	}
}

// Each source is read once a second, with any number of viewers.
func TestViewersShareARead(t *testing.T) {
	db := &counting{Driver: kept(t, 1)}
	b := open(t, of(db), nil)
	began := time.Now()
	for range 50 {
		b.page("/")
	}
	if n := db.n; n > 2+int(time.Since(began).Seconds()) {
		t.Errorf("%d reads", n)
	}
}

type counting struct {
	store.Driver[*memstore.Tx]
	n int
}

func (c *counting) Status(ctx context.Context, q store.StatusQuery) (store.Status, error) {
	if q.Outbox {
		c.n++
	}
	return c.Driver.Status(ctx, q)
}
