package feed

import (
	"strings"
	"testing"

	"github.com/skald-go/skald/internal/complete"
)

// A name that the outbox takes is one that every broker takes, and the other way round.
func TestNamesAreThoseOfTheOutbox(t *testing.T) {
	for _, name := range []string{"", "a", "orders.eu_1-b", "größe", "a b", "a/b", strings.Repeat("a", 249),
		strings.Repeat("a", 250)} {
		if OK(name) != complete.Topic(name) {
			t.Errorf("%q: %v here, %v for the outbox", name, OK(name), complete.Topic(name))
		}
	}
}

// What the outbox takes is what the limits of brokers are compared with.
func TestLargestPayload(t *testing.T) {
	if LargestPayload < complete.MaxData+complete.MaxHeaders+complete.MaxKey {
		t.Errorf("%d bytes are less than the outbox takes", LargestPayload)
	}
}

// Equal keys have equal places, whatever the build: members of different builds share a topic.
func TestPlacesOfKeysStay(t *testing.T) {
	for key, want := range map[string]int{"": 5, "order-1": 5, "order-2": 4} {
		if got := PartitionOf([]byte(key), 8); got != want {
			t.Errorf("%q is at %d, want %d", key, got, want)
		}
	}
	if Partition("orders", 3) != "orders/3" {
		t.Error(Partition("orders", 3))
	}
}
