package once_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/once"
)

// TestSealed checks that a sealed answer opens unchanged for its own request until it expires, and for no
// other request.
func TestSealed(t *testing.T) {
	secret, now := []byte("0123456789abcdef"), time.Now()
	q := once.Request{Scope: "http:orders", Tenant: "ann", Key: "k", Payload: []byte("tea")}
	want := once.Answer{Code: 201, Rejected: true, Reason: "no", Result: "\xff\x00" +
		strings.Repeat("x", 1000), Headers: `{"a":1}`}
	seal := func(secret []byte, server string, q once.Request) *once.Sealed {
		s, err := q.Seal(secret, server)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	mine := seal(secret, "run 1", q)
	e := mine.Close(want, now.Add(time.Hour))
	if got, ok := seal(secret, "run 1", q).Open(e.Value, now); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	if e.Key != mine.Key || strings.Contains(e.Value, "xxx") || mine.Close(want, now).Value == e.Value {
		t.Error("the entry is under another key, or shows the answer")
	}
	if _, ok := mine.Open(e.Value, now.Add(time.Hour)); ok {
		t.Error("it opens after its time")
	}
	others := map[string]*once.Sealed{"another secret": seal([]byte("0123456789abcdeg"), "run 1", q),
		"another run": seal(secret, "run 2", q)}
	for name, change := range map[string]func(*once.Request){
		"another scope":   func(q *once.Request) { q.Scope = "http:other" },
		"another tenant":  func(q *once.Request) { q.Tenant = "bob" },
		"another key":     func(q *once.Request) { q.Key = "l" },
		"another payload": func(q *once.Request) { q.Payload = []byte("salt") },
		"parts moved":     func(q *once.Request) { q.Tenant, q.Key = "annk", "" },
	} {
		other := q
		change(&other)
		others[name] = seal(secret, "run 1", other)
	}
	for name, s := range others {
		if _, ok := s.Open(e.Value, now); ok {
			t.Errorf("it opens for %s", name)
		}
		if same := name == "another run" || name == "another payload"; (s.Key == mine.Key) != same {
			t.Errorf("%s: the keys are %s and %s", name, s.Key, mine.Key)
		}
	}
	for n := range len(e.Value) {
		if _, ok := mine.Open(e.Value[:n], now); ok {
			t.Errorf("%d of %d bytes open", n, len(e.Value))
		}
	}
}
