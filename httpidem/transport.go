// This file has the client side, which sends keys.

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

// WithKey returns a context with a key for requests, such as the key of a call or of a step of a saga. Each
// repeat must use the same key.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyKey{}, key)
}

// Transport is a client's http.RoundTripper. It sends an Idempotency-Key with each request, except GET, HEAD,
// OPTIONS and TRACE. It uses the first of these keys that exists:
//
//   - the key in the headers of the request
//   - the key of WithKey
//   - in the handler of a message, a key from the message, the method and the URL
//
// So a repeat of the message sends the same key. After a redirect Transport uses the key of the redirected
// request. It does not send a request without a key, unless it is a PUT or DELETE, which are idempotent in
// HTTP.
//
// If a handler sends two different requests with one method to one URL, give each a key with WithKey.
// Otherwise a server that compares payloads refuses the second one (422).
type Transport struct {
	Base http.RoundTripper // default http.DefaultTransport
	// Bare sends the key without quotes, for servers that do not support structured fields. Transport then
	// refuses to send a key that a server would read as another key.
	Bare bool
}

// errNoKey is the error of a request without a key. Transport does not send it.
var errNoKey = errors.New("httpidem: the request has no Idempotency-Key, so a server could not detect a repeat: set a key with httpidem.WithKey, or send it with the context of a message's handler")

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
			_ = r.Body.Close() // a RoundTripper must close the body
		}
		return nil, err
	}
	r = withHeader(r, text)
	w, err := base.RoundTrip(r)
	if w != nil && w.Request == nil {
		w.Request = r // asFirst reads it after a redirect
	}
	return w, err
}

// header returns the value of the key header for r, or "" for no header.
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
				"httpidem: the request has the header %s %d times, but a server accepts it once: set it once",
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
			fmt.Errorf("httpidem: the key %.300q cannot be sent bare, because a server would read another key: remove a leading quote and spaces at both ends, or send it in quotes (Bare: false)",
				key)
	}
	return key, nil
}

// withHeader returns a copy of r with text as its only key header. If text is empty, the copy has no key
// header.
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

// asFirst returns the first request of the redirects that led to r. A key needs this request, because the
// target of a redirect may differ in each repeat.
func asFirst(r *http.Request) *http.Request {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	return r
}

// MessageKey returns the key for a request in the handler of a message. Each repeat of the message gets the
// same key. Another message or another purpose gets another key.
func MessageKey(m skald.Message, purpose string) string {
	h := sha256.New()
	for _, part := range []string{m.Source, m.ID, purpose} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:20])
}
