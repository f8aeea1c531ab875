package operate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestMissed: what was removed unread is listed until it is acknowledged, for each consumer by itself.
func TestMissed(t *testing.T) {
	db := memstore.New(nil)
	note := func(consumer string, n int) {
		t.Helper()
		a := store.Audit{Author: "skald", Action: "missed", Reason: fmt.Sprintf("%d messages", n),
			Consumer: consumer}
		if _, err := db.Apply(t.Context(), store.Effect{Audit: &a}); err != nil {
			t.Fatal(err)
		}
	}
	findings := func() string {
		t.Helper()
		notes, err := Missed(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, f := range MissedFindings(notes) {
			said += f.Name + ": " + f.Observed + "\n"
		}
		return said
	}
	note("stock", 1)
	note("stock", 2)
	note("billing", 3)
	if said := findings(); said != "missed by stock: 1 messages; 2 messages\nmissed by billing: 3 messages\n" {
		t.Errorf("it finds %s", said)
	}
	var usage *UsageError
	if err := AcknowledgeMissed(t.Context(), db, "stock", 3,
		Order{Author: "ann"}); !errors.As(err, &usage) || !strings.Contains(err.Error(), "reason") {
		t.Errorf("without a reason: %v", err)
	}
	seen, err := Missed(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	note("stock", 4) // while somebody looks
	if err := AcknowledgeMissed(t.Context(), db, "stock", seen[len(seen)-1].Number,
		Order{Author: "ann", Reason: "sent again"}); err != nil {
		t.Fatal(err)
	}
	if said := findings(); said != "missed by billing: 3 messages\nmissed by stock: 4 messages\n" {
		t.Errorf("it finds %s", said)
	}
}
