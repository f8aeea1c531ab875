// Package retention says what a store.Retention means, for all who see to one.
package retention

import (
	"cmp"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

const day = 24 * time.Hour

// LeastMarks is how long a mark is there at least, whatever its scope or a Retention says: stores take ids of
// the last hour without a look at the floor.
const LeastMarks = 80 * time.Minute

// OrDefaults fills in what is not given. Marks that would go before the rows that can repeat their messages
// are a *store.RetentionError.
func OrDefaults(r store.Retention) (store.Retention, error) {
	r.Outbox, r.Marks, r.Steps = cmp.Or(r.Outbox, 7*day), cmp.Or(r.Marks, 30*day), cmp.Or(r.Steps, 90*day)
	r.Sagas = cmp.Or(r.Sagas, 30*day)
	if r.Outbox < 0 || r.Marks < r.Outbox {
		return r, &store.RetentionError{
			What:   fmt.Sprintf("rows are to be kept %s and marks %s", Spell(r.Outbox), Spell(r.Marks)),
			Remedy: "keep marks at least as long as rows: a row that is kept can be published again, and then its mark must still be there",
		}
	}
	if r.Steps < 0 {
		return r, &store.RetentionError{What: fmt.Sprintf("steps are to be kept %s", Spell(r.Steps)),
			Remedy: "give the longest time that a saga of yours may take"}
	}
	if r.Sagas < 0 {
		return r, &store.RetentionError{What: fmt.Sprintf("ended sagas are to be kept %s", Spell(r.Sagas)),
			Remedy: "give how long a start of the same key may be repeated"}
	}
	return r, nil
}

// Unrelayed returns how many shards no living relay holds. It returns 0 while the outbox keeps no row: a
// database in which nothing is written needs no relay.
func Unrelayed(b store.Backlog) int {
	if b.Pending == 0 && b.Deferred == 0 && b.Retained == 0 {
		return 0
	}
	return b.Free
}
