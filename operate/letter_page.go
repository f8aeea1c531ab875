package operate

import (
	"context"

	"github.com/skald-go/skald/store"
)

// Page is a page of parked messages or dead letters, in the order of arrival.
type Page struct {
	List []store.Parked
	// Next is the Selection.After of the next page. It is 0 if this is the last page.
	Next int64
	// Scanned is the number of messages that were read, if PageLimits.Scan ended the page. Otherwise it is 0.
	Scanned int
}

// ListPage reads a page of the selected messages, within the limits. If bare is true, it omits payloads and
// headers. Most selections need one read of the store.
func ListPage(ctx context.Context, db store.Lister, s Selection, bare bool,
	limits PageLimits) (page Page, err error) {
	what := s.query(bare)
	what.Limit = limits.Limit + 1
	if s.ID != "" && s.Source == "" {
		what.About = s.ID
	}
	for what.Scan = limits.Scan; what.Scan > 0; {
		got, err := db.List(ctx, store.List{Parked: &what})
		if err != nil {
			return page, err
		}
		for i := range got.Parked {
			if !s.matches(&got.Parked[i]) {
				continue
			}
			if len(page.List) == limits.Limit {
				page.Next = page.List[limits.Limit-1].Place
				return page, nil
			}
			page.List = append(page.List, got.Parked[i])
		}
		switch n := len(got.Parked); {
		case got.ParkedTo > 0:
			page.Next, page.Scanned = got.ParkedTo, limits.Scan
			return page, nil
		case n < what.Limit:
			return page, nil
		default: // s.matches excluded some messages, so the page is not full
			what.After = got.Parked[n-1].Place
			what.Scan -= n
		}
	}
	page.Next, page.Scanned = what.After, limits.Scan
	return page, nil
}
