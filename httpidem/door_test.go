package httpidem_test

import (
	"bytes"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/skald-go/skald/httpidem"
)

// If a middleware has read the body, the endpoint cannot compare requests. It refuses the request with an
// error that names the problem, before it reserves the key. A middleware that restores or changes the body
// does no harm.
func TestBodyTaken(t *testing.T) {
	const formType = "application/x-www-form-urlencoded"
	var parts bytes.Buffer
	m := multipart.NewWriter(&parts)
	_ = m.WriteField("amount", "10")
	_ = m.Close()
	giveBack := func(then func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			then(r)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
	}
	value := func(r *http.Request) { _ = r.PostFormValue("csrf") }
	part := func(r *http.Request) { _ = r.ParseMultipartForm(1 << 20) }
	becomes := func(body string, header ...string) func(*http.Request) {
		return func(r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body = io.NopCloser(strings.NewReader(body))
			for _, name := range header {
				r.Header.Del(name)
			}
		}
	}
	for name, c := range map[string]struct {
		kind, body string
		first      func(*http.Request)
		taken      bool
	}{
		"nothing":              {formType, "csrf=1&amount=10", func(*http.Request) {}, false},
		"a form":               {formType, "csrf=1&amount=10", value, true},
		"a form, given back":   {formType, "csrf=1&amount=10", giveBack(value), false},
		"parts":                {m.FormDataContentType(), parts.String(), part, true},
		"parts, given back":    {m.FormDataContentType(), parts.String(), giveBack(part), false},
		"a form's value, JSON": {"application/json", `{"amount":10}`, value, false},
		"a form's value, none": {"application/json", "", value, false},
		"read whole": {"application/json", `{"amount":10}`,
			func(r *http.Request) { _, _ = io.ReadAll(r.Body) }, true},
		"closed": {"application/json", `{"amount":10}`,
			func(r *http.Request) { _ = r.Body.Close() }, true},
		"decompressed by gin": {"application/json", `{"amount":10}`,
			becomes("{}", "Content-Length", "Content-Encoding"), false},
		"decompressed by echo": {"application/json", `{"amount":10}`, becomes("{}"), false},
	} {
		for _, chunked := range []bool{false, true} {
			if chunked && name == "read whole" {
				continue // of a length that is not known nothing can be missing
			}
			bodyTaken(t, name, c.kind, c.body, strings.HasPrefix(name, "decompressed"), chunked,
				c.first, c.taken)
		}
	}
	bodyTaken(t, "a part", "application/json", `{"amount":10}`, false, false,
		func(r *http.Request) { _, _ = r.Body.Read(make([]byte, 3)) }, true)
}

func bodyTaken(t *testing.T, name, kind, body string, encoding, chunked bool, first func(*http.Request),
	taken bool) {
	t.Helper()
	g, o, log := inMemory(t),
		&old{do: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "paid") }},
		&bytes.Buffer{}
	options := &httpidem.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}
	h := wrapped(g.db, options, o)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first(r)
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	send := func(url string) (int, string) {
		var from io.Reader = strings.NewReader(body)
		if chunked {
			from = iotest.OneByteReader(from)
		}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, from)
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("Content-Type", kind)
		if encoding {
			r.Header.Set("Content-Encoding", "gzip")
		}
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Body.Close() }()
		text, _ := io.ReadAll(w.Body)
		return w.StatusCode, string(text)
	}
	code, text := send(s.URL)
	if !taken {
		if code != 200 || text != "paid" {
			t.Errorf("%s, chunked %v: %d %s", name, chunked, code, text)
		}
		return
	}
	const says = "a middleware read the body before the endpoint"
	if code != 500 || !strings.Contains(text, says) || !strings.Contains(text, "body-taken") ||
		!strings.Contains(log.String(), says) || o.runs.Load() != 0 {
		t.Errorf("%s, chunked %v: %d %s after %d runs, log %s", name, chunked, code, text, o.runs.Load(), log)
	}
	// The key is free: without the middleware, a request with another amount is a first request.
	clean := httptest.NewServer(wrapped(g.db, options, o))
	defer clean.Close()
	if code, text = send(clean.URL); code != 200 || text != "paid" || o.runs.Load() != 1 {
		t.Errorf("%s, chunked %v: then %d %s after %d runs", name, chunked, code, text, o.runs.Load())
	}
}

// net/http stores the Host header outside of Request.Header. The endpoint compares it, too.
func TestHostIsCompared(t *testing.T) {
	s := &shop[mem]{ground: inMemory(t)}
	o := quiet()
	o.Headers = []string{"host"}
	h := s.endpoint(o)
	for i, c := range []struct {
		host string
		code int
	}{{"a.example", 201}, {"b.example", 422}, {"a.example", 201}} {
		r := post{key: "k", body: `{"SKU":"tea"}`}.request()
		r.Host = c.host
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.code {
			t.Errorf("%d: %s is answered %d %s, want %d", i, c.host, w.Code, w.Body, c.code)
		}
	}
	s.wantList(t, "placed", "tea")
}

// Invalid options cause an error that names the option, before the handler runs.
func TestOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]*httpidem.Options{"Lease": {Lease: -time.Second},
		"MaxBody": {MaxBody: -1}} {
		g := inMemory(t)
		if err := httpidem.Check(t.Context(), g.db, o); err == nil ||
			!strings.Contains(err.Error(), "Options."+name) {
			t.Errorf("%s: %v", name, err)
		}
		o.Logger = quiet().Logger
		next := &old{do: func(http.ResponseWriter, *http.Request) {}}
		answers(t, post{key: "k", body: "{}"}.to(wrapped(g.db, o, next)), 500, "the service failed")
		s := &shop[mem]{ground: g}
		answers(t, post{key: "k", body: `{"SKU":"tea"}`}.to(s.endpoint(o)), 500, "the service failed")
		if s.wantList(t, "placed", ""); next.runs.Load() != 0 {
			t.Errorf("%s: %d runs", name, next.runs.Load())
		}
	}
}
