// This file filters parked messages and dead letters by fields that have no index.

package column

import (
	"slices"

	"github.com/skald-go/skald/store"
)

// NeedsEachRow reports whether a query has conditions on fields without an index, so that the store must
// read and check each row.
func NeedsEachRow(w *store.ParkedQuery) bool {
	return w.Topic+w.Type+w.Kind+w.About != "" || !w.DeadFrom.IsZero() || !w.DeadTo.IsZero()
}

// KeptMatches reports whether p satisfies the conditions of the query on fields without an index.
func KeptMatches(w *store.ParkedQuery, p *store.Parked) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	m := &p.Message
	if !is(w.Topic, m.Topic) || !is(w.Type, m.Type) {
		return false
	}
	if w.Kind != "" || !w.DeadFrom.IsZero() || !w.DeadTo.IsZero() {
		d := p.Dead
		if d == nil || !is(w.Kind, d.Kind) || d.At.Before(w.DeadFrom) || !w.DeadTo.IsZero() &&
			!d.At.Before(w.DeadTo) {
			return false
		}
	}
	return w.About == "" || Names(p.ID, w.About) ||
		slices.Contains([]string{m.CorrelationID, m.CausationID, m.Subject}, w.About)
}
