package operate

import (
	"context"

	"github.com/skald-go/skald/store"
)

// A Page is some kept messages, in the order of arrival.
type Page struct {
	List []store.Parked
	// Next is the After of the page that follows; 0: this is the last one.
	Next int64
	// Scanned is how many messages were looked at, where that ended the page; else 0.
	Scanned int
}

// Kept reads a page of the selected messages; bare: without payloads and headers. One read of the store does
// for most selections.
func Kept(ctx context.Context, db store.Lister, s Selection, bare bool,
	most Peek) (page Page, err error) {
	what := s.sought(bare)
	what.Limit = most.Limit + 1
	if s.ID != "" && s.Source == "" {
		what.About = s.ID
	}
	for what.Scan = most.Scan; what.Scan > 0; {
		got, err := db.List(ctx, store.List{Kept: &what})
		if err != nil {
			return page, err
		}
		for i := range got.Kept {
			if !s.means(&got.Kept[i]) {
				continue
			}
			if len(page.List) == most.Limit {
				page.Next = page.List[most.Limit-1].Place
				return page, nil
			}
			page.List = append(page.List, got.Kept[i])
		}
		switch n := len(got.Kept); {
		case got.KeptTo > 0:
			page.Next, page.Scanned = got.KeptTo, most.Scan
			return page, nil
		case n < what.Limit:
			return page, nil
		default: // some were left out
			what.After = got.Kept[n-1].Place
			what.Scan -= n
		}
	}
	page.Next, page.Scanned = what.After, most.Scan
	return page, nil
}
