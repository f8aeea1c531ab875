package console_test

import (
	"strings"
	"testing"

	"github.com/skald-go/skald/console"
)

// A command that needs a variable of the shell says so beside it.
func TestWhatACommandSupposes(t *testing.T) {
	db := kept(t, 1)
	const query, note = "/act?consumer=payment&id=d-0&in=orders&source=%2Fshop&verb=drop", "Or type it, where SKALD_STORE is the URL of the database of orders:"
	for at, noted := range map[string]bool{"": true, `--store "$SKALD_STORE" --schema x`: true, "--schema x": true, "--store @orders.url": false} {
		b := open(t, map[string]console.Source{"orders": console.Of(db).At(at)}, nil)
		if page := b.page(query); strings.Contains(page, note) != noted {
			t.Errorf("%q: %s", at, page)
		}
	}
}
