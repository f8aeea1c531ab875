package httpidem_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/httpidem"
)

// behind returns h behind a middleware that sets headers of its own.
func behind(h http.Handler, cookie string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Set-Cookie", cookie)
		w.Header().Set("X-Request-Id", cookie)
		h.ServeHTTP(w, r)
	})
}

// Headers that an outer middleware sets remain, in addition to those of the handler. This is true for a first
// answer, a replay and a problem. A replay does not contain the headers that the middleware set for the first
// request.
func TestHeadersOfOuterMiddlewareStay(t *testing.T) {
	g := inMemory(t)
	header := http.Header{"Vary": {"Accept-Language", "Origin"}, "Set-Cookie": {"own=1"}, "X-Own": {"1"}}
	old := &old{do: func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		_, _ = io.WriteString(w, "done")
	}}
	handled := httpidem.Handle(g.db, "new", httpidem.OneTenant, quiet(),
		func(context.Context, mem, httpidem.Request[order]) (httpidem.Reply[string], error) {
			return httpidem.Reply[string]{Header: header, Body: "done"}, nil
		})
	for name, h := range map[string]http.Handler{"Handle": handled, "Wrap": wrapped(g.db, quiet(), old)} {
		p := post{key: "k", body: `{"SKU":"tea"}`}
		for _, c := range []struct {
			p       post
			cookies []string
			vary    []string
		}{{p, []string{"out=1", "own=1"}, []string{"Origin", "Accept-Language"}},
			{p, []string{"out=2"}, []string{"Origin", "Accept-Language"}},
			{post{key: "k", body: "[]"}, []string{"out=3"}, []string{"Origin"}}} {
			cookie := c.cookies[0]
			w := c.p.to(behind(h, cookie))
			if got := w.Header(); !slices.Equal(got["Set-Cookie"], c.cookies) ||
				!slices.Equal(got["Vary"], c.vary) || !slices.Equal(got["X-Request-Id"], []string{cookie}) {
				t.Errorf("%s, %s: %d %v, want cookies %q, Vary %q", name, cookie, w.Code, got, c.cookies,
					c.vary)
			}
		}
	}
}

// An answer with another length than its handler declared is a failure. Under Wrap the effect is unknown, so
// the key stays reserved. Under Handle the rows are rolled back and a repeat runs the handler again.
func TestDeclaredLength(t *testing.T) {
	g := inMemory(t)
	for _, declares := range []string{"50", "3"} {
		o := &old{do: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", declares)
			_, _ = io.WriteString(w, `{"half":"of `)
		}}
		p := post{key: "k-" + declares, body: `{"SKU":"tea"}`}
		answers(t, p.to(wrapped(g.db, impatient(), o)), 500, "answer-length")
		answers(t, p.to(wrapped(g.db, impatient(), o)), 409, "in-progress")
		runs := 0
		h := httpidem.Handle(g.db, "proxy", httpidem.OneTenant, quiet(),
			func(_ context.Context, tx mem, _ httpidem.Request[order]) (httpidem.Reply[[]byte], error) {
				runs++
				return httpidem.Reply[[]byte]{Header: http.Header{"Content-Length": {declares}},
					Body: []byte(`{"half":"of `)}, g.note(tx, "proxy", "ran")
			})
		answers(t, p.to(h), 500, "answer-length")
		answers(t, p.to(h), 500, "answer-length")
		if g.wantList(t, "proxy", ""); runs != 2 {
			t.Errorf("%d runs", runs)
		}
	}
	whole := &old{do: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "4")
		_, _ = io.WriteString(w, "done")
	}}
	answers(t, post{key: "whole", body: "{}"}.to(wrapped(g.db, quiet(), whole)), 200, "done")
}

func zipped(text string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return out.Bytes()
}

// zip compresses the answers of h for clients that accept it, as many middlewares do.
func zip(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(zipped(rec.Body.String()))
	})
}

// The endpoint sends an encoded body only to clients that accept its encoding. A middleware under Wrap does
// not compress. If it always does, its answer is not replayed to a client that does not accept it. A
// compressed body gets no detected Content-Type.
func TestCodings(t *testing.T) {
	g := inMemory(t)
	o := &old{do: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<p>done</p>") }}
	asks := func(coding string) post {
		return post{key: "k", body: `{"SKU":"tea"}`, header: http.Header{"Accept-Encoding": {coding}}}
	}
	plain := asks("gzip")
	plain.header = nil
	under := wrapped(g.db, quiet(), zip(o))
	for _, p := range []post{asks("gzip"), asks("gzip"), plain} {
		if w := p.to(under); w.Body.String() != "<p>done</p>" || w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%v: %q %v", p.header, w.Body, w.Header())
		}
	}
	always := &old{do: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(zipped("<p>done</p>"))
	}}
	handled := httpidem.Handle(g.db, "new", httpidem.OneTenant, quiet(),
		func(context.Context, mem, httpidem.Request[order]) (httpidem.Reply[[]byte], error) {
			return httpidem.Reply[[]byte]{Header: http.Header{"Content-Encoding": {"gzip"}},
				Body: zipped("<p>done</p>")}, nil
		})
	for name, h := range map[string]http.Handler{"Wrap": httpidem.Wrap(g.db, "always", httpidem.OneTenant,
		quiet(), always), "Handle": handled} {
		s := httptest.NewServer(h)
		defer s.Close()
		for _, c := range []struct {
			coding string
			code   int
		}{{"br;q=1, gzip", 200}, {"identity", 406}, {"br", 406}, {"gzip;q=0, *", 406}, {"*", 200},
			{"GZIP", 200}} {
			r := asks(c.coding).request()
			again, _ := http.NewRequestWithContext(t.Context(), r.Method, s.URL+"/orders", r.Body)
			again.Header = r.Header
			w, err := http.DefaultTransport.RoundTrip(again)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(w.Body)
			_ = w.Body.Close()
			zipped := w.Header.Get("Content-Encoding") == "gzip" &&
				w.Header.Get("Content-Type") == ""
			if w.StatusCode != c.code || zipped != (c.code == 200) ||
				c.code == 406 && !strings.Contains(string(text), "Accept-Encoding: gzip") {
				t.Errorf("%s, %q: %d %q %v", name, c.coding, w.StatusCode, text, w.Header)
			}
		}
	}
	// A client that did not ask for an encoding but got one gets it again.
	first := httpidem.Wrap(g.db, "unasked", httpidem.OneTenant, quiet(), always)
	for range 2 {
		if w := plain.to(first); w.Code != 200 || w.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
}

type secretive struct{ order }

func (*secretive) UnmarshalJSON([]byte) error { return errors.New("no such user at 10.0.0.7") }

// The text of an error of the user's functions is logged; the client does not see it. The client gets 503
// after an outage, so that it repeats the request. It gets 401 after any other error. A *Problem is sent
// unchanged.
func TestErrorsOfTheUsersFunctions(t *testing.T) {
	g := inMemory(t)
	for name, c := range map[string]struct {
		err  error
		code int
		says string
	}{
		"refused":  {errors.New("no such user at 10.0.0.7"), 401, ""},
		"outage":   {skald.Outage(errors.New("no such user at 10.0.0.7")), 503, ""},
		"deadline": {fmt.Errorf("10.0.0.7: %w", context.DeadlineExceeded), 503, ""},
		"network":  {&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("10.0.0.7")}, 503, ""},
		"later":    {skald.RetryAfter(3e9, errors.New("10.0.0.7")), 503, ""},
		"problem": {&httpidem.Problem{Status: 403, Detail: "not yours", Err: errors.New("10.0.0.7")}, 403,
			"not yours"},
		"nil problem": {(*httpidem.Problem)(nil), 401, ""},
		"panic":       {nil, 500, ""},
	} {
		var log strings.Builder
		o := &httpidem.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		tenant := func(*http.Request) (string, error) {
			if c.err == nil {
				panic("10.0.0.7")
			}
			return "", c.err
		}
		next := &old{do: func(http.ResponseWriter, *http.Request) {}}
		w := post{key: "k", body: "{}"}.to(httpidem.Wrap(g.db, "e", tenant, o, next))
		if answers(t, w, c.code, c.says); strings.Contains(w.Body.String(), "10.0.0.7") ||
			c.code == 503 && w.Header().Get("Retry-After") == "" || next.runs.Load() > 0 {
			t.Errorf("%s: %s %v", name, w.Body, w.Header())
		}
		if name != "nil problem" && !strings.Contains(log.String(), "10.0.0.7") {
			t.Errorf("%s: log %s", name, log.String())
		}
	}
	h := httpidem.Handle(g.db, "own", httpidem.OneTenant, quiet(),
		func(context.Context, mem, httpidem.Request[secretive]) (httpidem.Reply[string], error) {
			return httpidem.OK("done"), nil
		})
	w := post{key: "k", body: " null "}.to(h)
	answers(t, w, 400, "cannot be decoded") // its own type reads null
	w = post{key: "k", body: "{}"}.to(h)
	if answers(t, w, 400, "cannot be decoded"); strings.Contains(w.Body.String(), "10.0.0.7") {
		t.Errorf("%s", w.Body)
	}
}
