package httpidem

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

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
// message repeats the key. A request that has none of them is not sent, unless it is a PUT or DELETE, which
// HTTP itself calls idempotent.
//
// A handler that sends two different requests of one method to one URL gives each a key by WithKey; else the
// second is refused (422) by a server that compares payloads.
type Transport struct {
	Base http.RoundTripper // default http.DefaultTransport
	Bare bool              // the key without quotes, for servers that do not read structured fields
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
	if len(r.Header.Values(KeyHeader)) > 0 {
		return base.RoundTrip(r)
	}
	key, err := keyFor(r)
	if errors.Is(err, errNoKey) && (r.Method == http.MethodPut || r.Method == http.MethodDelete) {
		return base.RoundTrip(r)
	}
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper always does
		}
		return nil, err
	}
	if !t.Bare {
		key = quote(key)
	}
	r = r.Clone(r.Context())
	r.Header.Set(KeyHeader, key)
	return base.RoundTrip(r)
}

func keyFor(r *http.Request) (string, error) {
	key, ok := r.Context().Value(keyKey{}).(string)
	if !ok {
		cause, ok := skald.Cause(r.Context())
		if !ok {
			return "", errNoKey
		}
		return MessageKey(cause, r.Method+" "+r.URL.String()), nil
	}
	if _, err := keyOf(http.Header{KeyHeader: {quote(key)}}); err != nil {
		return "", fmt.Errorf("httpidem: the key %.300q cannot be sent: %w", key, err)
	}
	return key, nil
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
