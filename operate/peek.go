package operate

import (
	"context"

	"github.com/skald-go/skald/store"
)

// A Peek bounds a look at kept messages.
type Peek struct {
	Limit int // of messages that are returned
	Scan  int // of messages that are read for that: some fields of a Selection no index knows
}

// A Page is some kept messages, in the order of arrival.
type Page struct {
	List []store.Parked
	// Next is the After of the page that follows; 0: this is the last one.
	Next int64
	// Scanned is how many messages were read.
	Scanned int
}

const peekSize = 1000

// Kept reads a page of the selected messages; bare: without payloads and headers.
func Kept(ctx context.Context, db store.Lister, s Selection, bare bool, most Peek) (page Page, err error) {
	what := s.sought(bare)
	for page.Scanned < most.Scan {
		what.Limit = min(peekSize, most.Scan-page.Scanned, most.Limit+1)
		list, err := store.ListKept(ctx, db, what)
		if err != nil {
			return page, err
		}
		for i := range list {
			if s.means(&list[i]) {
				if len(page.List) == most.Limit {
					page.Next = what.After
					return page, nil
				}
				page.List = append(page.List, list[i])
			}
			what.After = list[i].Place
			page.Scanned++
		}
		if len(list) < what.Limit {
			return page, nil
		}
	}
	page.Next = what.After
	return page, nil
}
