package httpidem

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/skald-go/skald"
)

type keyKey struct{}

// WithKey returns a context whose requests carry that key: of a call, or of a step of a saga. It must be the
// same with each repeat.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyKey{}, key)
}

// A Transport sends an Idempotency-Key with each request that may change something: all but GET, HEAD,
// OPTIONS and TRACE. A key that the request has already stays; then that of WithKey counts; then, in the
// handler of a message, one that is made of the message, the method and the URL, so that a repeat of the
// message repeats the key. Behind a redirect it is the key of the request that was redirected. A request that
// has none of them is not sent, unless it is a PUT or DELETE, which HTTP itself calls idempotent.
//
// A handler that sends two different requests of one method to one URL gives each a key by WithKey; else the
// second is refused (422) by a server that compares payloads.
type Transport struct {
	Base http.RoundTripper // default http.DefaultTransport
	// Bare sends the key without quotes, for servers that do not read structured fields. A key that a server
	// would read as another one then is not sent.
	Bare bool
}

// errNoKey is why a request is not sent.
var errNoKey = errors.New("httpidem: the request has no Idempotency-Key, and a repeat of it could not be told: give it one by httpidem.WithKey, or send it with the context of a message's handler")

// RoundTrip sends r with its key.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return base.RoundTrip(r)
	}
	text, err := t.header(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper always does
		}
		return nil, err
	}
	r = withHeader(r, text)
	w, err := base.RoundTrip(r)
	if w != nil && w.Request == nil {
		w.Request = r // the way back from a redirect
	}
	return w, err
}

// header is the header that r is sent with; "": none.
func (t *Transport) header(r *http.Request) (string, error) {
	var there []string
	for name, values := range r.Header {
		if http.CanonicalHeaderKey(name) == KeyHeader {
			there = append(there, values...)
		}
	}
	there = slices.DeleteFunc(there, func(v string) bool { return strings.Trim(v, " \t") == "" })
	switch len(there) {
	case 0:
	case 1:
		return there[0], nil
	default:
		return "",
			fmt.Errorf(
				"httpidem: the request has the header %s %d times, and a server takes one: set it once",
				KeyHeader, len(there))
	}
	key, err := keyFor(r)
	if errors.Is(err, errNoKey) && (r.Method == http.MethodPut || r.Method == http.MethodDelete) {
		return "", nil
	}
	if err != nil || !t.Bare {
		return quote(key), err
	}
	if read, err := Key(strings.Trim(key, " \t")); err != nil || read != key {
		return "",
			fmt.Errorf("httpidem: the key %.300q cannot be sent bare, a server reads another one: let it begin without a quote, and begin and end without a space, or send it in quotes (Bare: false)",
				key)
	}
	return key, nil
}

// withHeader is r with text as its only header of a key; "": without one.
func withHeader(r *http.Request, text string) *http.Request {
	out := r.Clone(r.Context())
	maps.DeleteFunc(out.Header,
		func(name string, _ []string) bool { return http.CanonicalHeaderKey(name) == KeyHeader })
	if text != "" {
		out.Header.Set(KeyHeader, text)
	}
	return out
}

func keyFor(r *http.Request) (string, error) {
	key, ok := r.Context().Value(keyKey{}).(string)
	if !ok {
		cause, ok := skald.Cause(r.Context())
		if !ok {
			return "", errNoKey
		}
		first := asFirst(r)
		return MessageKey(cause, first.Method+" "+first.URL.String()), nil
	}
	if _, err := keyOf(http.Header{KeyHeader: {quote(key)}}); err != nil {
		return "", fmt.Errorf("httpidem: the key %.300q cannot be sent: %w", key, err)
	}
	return key, nil
}

// asFirst is the request that r follows a redirect of, the first one: where a server redirects to may differ
// with each repeat.
func asFirst(r *http.Request) *http.Request {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	return r
}

// MessageKey is the key of what the handler of a message asks for: the same for each repeat of the message,
// another one for another message or purpose.
func MessageKey(m skald.Message, purpose string) string {
	h := sha256.New()
	for _, part := range []string{m.Source, m.ID, purpose} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:20])
}
