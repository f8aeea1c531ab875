package operate

import (
	"context"

	"github.com/skald-go/skald/store"
)

// Page is a page of kept messages, in the order of arrival.
type Page struct {
	List []store.Parked
	// Next is the After of the next page; 0 if this is the last page.
	Next int64
	// Scanned is the number of messages that were read, if the limit Peek.Scan ended the page; else 0.
	Scanned int
}

// ListPage reads a page of the selected messages. With bare it reads them without payloads and headers. Most
// selections need one read of the store.
func ListPage(ctx context.Context, db store.Lister, s Selection, bare bool,
	most PageLimits) (page Page, err error) {
	what := s.sought(bare)
	what.Limit = most.Limit + 1
	if s.ID != "" && s.Source == "" {
		what.About = s.ID
	}
	for what.Scan = most.Scan; what.Scan > 0; {
		got, err := db.List(ctx, store.List{Parked: &what})
		if err != nil {
			return page, err
		}
		for i := range got.Parked {
			if !s.matches(&got.Parked[i]) {
				continue
			}
			if len(page.List) == most.Limit {
				page.Next = page.List[most.Limit-1].Place
				return page, nil
			}
			page.List = append(page.List, got.Parked[i])
		}
		switch n := len(got.Parked); {
		case got.ParkedTo > 0:
			page.Next, page.Scanned = got.ParkedTo, most.Scan
			return page, nil
		case n < what.Limit:
			return page, nil
		default: // the selection left some out
			what.After = got.Parked[n-1].Place
			what.Scan -= n
		}
	}
	page.Next, page.Scanned = what.After, most.Scan
	return page, nil
}
