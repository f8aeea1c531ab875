package httpidem_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/httpidem"
)

// listener is a server that records the keys of each path. It redirects each path except /end, each time to
// another path.
type listener struct {
	url  string
	keys map[string][]string
}

func listen(t *testing.T) *listener {
	t.Helper()
	l := &listener{keys: map[string][]string{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		was := l.keys[r.URL.Path]
		l.keys[r.URL.Path] = append(was, strings.Join(r.Header.Values("Idempotency-Key"), " | "))
		switch r.URL.Path {
		case "/pay":
			http.Redirect(w, r, fmt.Sprint("/node?try=", len(was)), http.StatusTemporaryRedirect)
		case "/node":
			http.Redirect(w, r, fmt.Sprint("/end?try=", len(was)), http.StatusPermanentRedirect)
		}
	}))
	t.Cleanup(s.Close)
	l.url = s.URL
	return l
}

// send sends a POST to a path with the header unchanged. It checks the text of the error, or that there is
// none.
func (l *listener) send(t *testing.T, transport http.RoundTripper, ctx context.Context, path string,
	header http.Header, says string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		r.Header = header
	}
	w, err := (&http.Client{Transport: transport}).Do(r)
	if err == nil {
		_ = w.Body.Close()
	}
	if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("%q: %v, want %q", header, err, says)
	}
}

// Two attempts at one message send one key to the server behind redirects, although the redirects differ.
// This also works if the base transport does not set Response.Request.
func TestTransportRedirect(t *testing.T) {
	for _, base := range []http.RoundTripper{nil, forgetful{}} {
		l := listen(t)
		for i := range 2 {
			for _, id := range []string{"m-1", "m-2"} {
				l.send(t, &httpidem.Transport{Base: base},
					skald.WithCause(t.Context(), skald.Message{Source: "/shop", ID: id}), "/pay", nil, "")
			}
			if got := l.keys["/end"]; len(got) != 2*i+2 || got[2*i] == "" || got[2*i] != got[0] ||
				got[2*i+1] == got[0] || got[2*i+1] != got[1] {
				t.Fatalf("the last server got the keys %q", got)
			}
		}
		if !slices.Equal(l.keys["/pay"], l.keys["/end"]) || !slices.Equal(l.keys["/pay"], l.keys["/node"]) {
			t.Errorf("the keys differ: %q", l.keys)
		}
	}
}

// forgetful is a transport that does not set Response.Request.
type forgetful struct{}

func (forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	w, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		w.Request = nil
	}
	return w, err
}

// A server receives a key unchanged, or Transport does not send it.
func TestTransportKeys(t *testing.T) {
	l := listen(t)
	for key, bare := range map[string]bool{
		"a": true, "a,b": true, `a"b`: true, `a\b`: true, "a b": true,
		"a ": false, " a": false, `"a"`: false, `"a`: false, `"a";p=1`: false,
	} {
		ctx := httpidem.WithKey(t.Context(), key)
		l.send(t, &httpidem.Transport{}, ctx, "/end", nil, "")
		says := ""
		if !bare {
			says = "cannot be sent bare"
		}
		l.send(t, &httpidem.Transport{Bare: true}, ctx, "/end", nil, says)
		got := l.keys["/end"]
		if len(got) != map[bool]int{true: 2, false: 1}[bare] || bare && got[1] != key {
			t.Errorf("the key %q was sent as %q", key, got)
		}
		if read, err := httpidem.Key(got[0]); err != nil || read != key {
			t.Errorf("the key %q is read as %q, %v", key, read, err)
		}
		delete(l.keys, "/end")
	}
}

// An empty header counts as no header, and the case of its name does not matter.
func TestTransportHeaders(t *testing.T) {
	l := listen(t)
	for _, c := range []struct {
		header http.Header
		sent   string
		says   string
	}{
		{http.Header{"Idempotency-Key": {""}}, `"given"`, ""},
		{http.Header{"Idempotency-Key": {" \t"}}, `"given"`, ""},
		{http.Header{"Idempotency-Key": {"", "mine"}}, "mine", ""},
		{http.Header{"idempotency-key": {""}}, `"given"`, ""},
		{http.Header{"idempotency-key": {"mine"}}, "mine", ""},
		{http.Header{"idempotency-key": {"mine"}, "Idempotency-Key": {""}}, "mine", ""},
		{http.Header{"idempotency-key": {"mine"}, "Idempotency-Key": {"other"}}, "", "set it once"},
	} {
		was := fmt.Sprint(c.header)
		l.send(t, &httpidem.Transport{}, httpidem.WithKey(t.Context(), "given"), "/end", c.header, c.says)
		if got := l.keys["/end"]; c.says == "" && (len(got) != 1 || got[0] != c.sent) || c.says != "" &&
			len(got) > 0 {
			t.Errorf("%q was sent as %q, want %q", c.header, got, c.sent)
		}
		if fmt.Sprint(c.header) != was {
			t.Errorf("the caller's header was changed: %v, was %v", c.header, was)
		}
		delete(l.keys, "/end")
	}
	l.send(t, &httpidem.Transport{}, t.Context(), "/end", http.Header{"Idempotency-Key": {""}},
		"has no Idempotency-Key")
}
