package once_test

import (
	"testing"

	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// TestSeal checks that an entry is for one piece of work, one payload and one run of one database. Any
// difference gives another value, and other work another key.
func TestSeal(t *testing.T) {
	secret, other := fingerprint.New([]byte("0123456789abcdef")), fingerprint.New([]byte("fedcba9876543210"))
	id := store.Identity{Source: "/shop", ID: "7"}
	first := once.Seal(secret, "run 1", "stock", id, 42)
	if first != once.Seal(secret, "run 1", "stock", id, 42) || len(first.Key) != 11 ||
		len(first.Value) != 11 || first.Key == first.Value {
		t.Errorf("%+v", first)
	}
	for name, e := range map[string]once.Entry{
		"another payload": once.Seal(secret, "run 1", "stock", id, 43),
		"another run":     once.Seal(secret, "run 2", "stock", id, 42),
	} {
		if e.Key != first.Key || e.Value == first.Value {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for name, e := range map[string]once.Entry{
		"another consumer": once.Seal(secret, "run 1", "ledger", id, 42),
		"another source":   once.Seal(secret, "run 1", "stock", store.Identity{Source: "/sho", ID: "p7"}, 42),
		"another id":       once.Seal(secret, "run 1", "stock", store.Identity{Source: "/shop", ID: "8"}, 42),
		"another database": once.Seal(other, "run 1", "stock", id, 42),
	} {
		if e.Key == first.Key || e.Value == first.Value {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
