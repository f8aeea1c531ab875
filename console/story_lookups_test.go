package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skald-go/skald/store/memstore"
)

// TestStoryStatesItsLookups: the story of a key states how many consumers it did not ask for messages.
func TestStoryStatesItsLookups(t *testing.T) {
	db := memstore.New(nil)
	for n := range 42 {
		if n == 40 {
			if page := open(t, of(db), nil).page("/story?q=k-1"); strings.Contains(page, "pairs of a consumer") {
				t.Errorf("with 40 consumers: %s", page)
			}
		}
		m := parkedMessage(fmt.Sprint("m-", n), "k-1")
		m.Consumer = fmt.Sprintf("consumer-%02d", n)
		keep(t, db, m)
	}
	const want = "orders: parked and dead messages were read for 40 of 42 pairs of a consumer and a key"
	if page := open(t, of(db), nil).page("/story?q=k-1"); !strings.Contains(page, want) ||
		strings.Contains(page, "orders has more than is shown") {
		t.Errorf("no %q: %s", want, page)
	}
}
