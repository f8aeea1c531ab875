package console_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// crowd is a store with many dead letters that are created while they are read.
type crowd struct {
	store.Driver[*memstore.Tx]
	n    int
	none bool // none match
}

func (c *crowd) List(ctx context.Context, l store.List) (out store.Listed, err error) {
	if l.Parked == nil {
		return c.Driver.List(ctx, l)
	}
	at := int(l.Parked.After)
	for looked := 0; at < c.n; looked++ {
		if l.Parked.Scan > 0 && looked == l.Parked.Scan {
			out.ParkedTo = int64(at)
			return out, nil
		}
		if len(out.Parked) == l.Parked.Limit {
			return out, nil
		}
		if at++; !c.none {
			p := dead(fmt.Sprint("d-", at), "k", failing)
			p.Place = int64(at)
			out.Parked = append(out.Parked, p)
		}
	}
	if l.Parked.Scan == c.n { // the store cannot tell that these are all
		out.ParkedTo = int64(at)
	}
	return out, nil
}

// If the scan ends before a match, the page links to more. A complete count is exact.
func TestWhereALookEnds(t *testing.T) {
	db := &crowd{Driver: memstore.New(nil), n: 10_000}
	b := open(t, of(db), nil)
	if page := b.page("/dead/groups"); strings.Contains(page, "Only the first") ||
		!strings.Contains(page, ">10,000<") {
		t.Errorf("%s", page)
	}
	db.n++
	if page := b.page("/dead/groups"); !strings.Contains(page, "Only the first") {
		t.Errorf("%s", page)
	}
	db.none = true
	if page := b.page("/dead?type=another"); strings.Contains(page, "Nothing found") ||
		!strings.Contains(page, "The next ones") {
		t.Errorf("%s", page)
	}
}

// The longest ids are cut in the text, but not in links.
func TestLongIDs(t *testing.T) {
	db := memstore.New(nil)
	for i := range 100 {
		keep(t, db, dead(fmt.Sprintf("%0900d", i), fmt.Sprint("k-", i), failing))
	}
	page := open(t, of(db), nil).page("/dead")
	if len(page) > 150_000 || !strings.Contains(page, fmt.Sprintf("id=%0900d&amp;", 99)) {
		t.Errorf("%d bytes: %s", len(page), page[:3000])
	}
}

type panics struct{ store.Driver[*memstore.Tx] }

func (panics) List(context.Context, store.List) (store.Listed, error) { panic("secret") }
func (panics) Status(context.Context, store.StatusQuery) (store.Status, error) {
	panic("secret")
}

// A source whose driver panics is unavailable; the service continues.
func TestDriverPanics(t *testing.T) {
	b := open(t, of(panics{memstore.New(nil)}), nil)
	for _, path := range []string{"/", "/dead", "/story?q=k"} {
		if w := b.do(http.MethodGet, path, nil); w.Code != http.StatusOK ||
			!strings.Contains(w.Body.String(), "is unavailable") || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
	}
}
