package feed

import (
	"strings"
	"testing"

	"github.com/skald-go/skald/internal/complete"
)

// The outbox and all brokers accept the same names.
func TestNamesAreThoseOfTheOutbox(t *testing.T) {
	for _, name := range []string{"", "a", "orders.eu_1-b", "größe", "a b", "a/b", strings.Repeat("a", 249),
		strings.Repeat("a", 250)} {
		if OK(name) != complete.Topic(name) {
			t.Errorf("%q: %v here, %v for the outbox", name, OK(name), complete.Topic(name))
		}
	}
}

// LargestPayload equals the limit of the outbox.
func TestLargestPayload(t *testing.T) {
	if LargestPayload < complete.MaxData+complete.MaxHeaders+complete.MaxKey {
		t.Errorf("%d bytes are less than the outbox takes", LargestPayload)
	}
}

// A key's partition never changes between builds, because members of different builds share a topic.
func TestPartitionsOfKeysStay(t *testing.T) {
	for key, want := range map[string]int{"": 5, "order-1": 5, "order-2": 4} {
		if got := PartitionOf([]byte(key), 8); got != want {
			t.Errorf("%q is at %d, want %d", key, got, want)
		}
	}
	if Partition("orders", 3) != "orders/3" {
		t.Error(Partition("orders", 3))
	}
}
