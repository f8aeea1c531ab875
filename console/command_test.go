package console_test

import (
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// A command that needs a shell variable is shown with that requirement.
func TestRequirementsOfACommand(t *testing.T) {
	db := kept(t, 1)
	const query, note = "/act?consumer=payment&id=d-0&in=orders&source=%2Fshop&verb=drop",
		"Or type it, where SKALD_STORE is the URL of the database of orders:"
	for at, noted := range map[string]bool{"": true, `--store "$SKALD_STORE" --schema x`: true,
		"--schema x": true, "--store @orders.url": false} {
		b := open(t, map[string]console.Source{"orders": console.NewSource(db).WithFlags(at)}, nil)
		if page := b.page(query); strings.Contains(page, note) != noted {
			t.Errorf("%q: %s", at, page)
		}
	}
}

// The page shows how to read a message in quarantine before it is admitted.
func TestQuarantineIsLookedAtFirst(t *testing.T) {
	db := memstore.New(nil)
	apply(t, db, store.Effect{Quarantine: &store.Quarantined{Consumer: "stock",
		Identity: store.Identity{Source: "/shop", ID: "-1"}, Why: store.Conflict,
		Message: skald.Message{ID: "-1", Source: "/shop", Type: "order.placed"}}})
	page := open(t, of(db), nil).page("/act?in=orders&verb=admit&type=order.placed")
	for _, part := range []string{"skald inbox show --store @orders.url --consumer stock --source /shop --json -- -1", "skald inbox admit --store @orders.url --type order.placed --reason"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q: %s", part, page)
		}
	}
}
