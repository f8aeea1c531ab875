// Package keptrow is what all stores do alike with the row of a kept message.
package keptrow

import (
	"slices"

	"github.com/skald-go/skald/internal/held"
	"github.com/skald-go/skald/store"
)

// ByRow tells whether a list asks for what no index knows.
func ByRow(w *store.Sought) bool {
	return w.Topic+w.Type+w.Kind+w.About != "" || !w.DeadFrom.IsZero() || !w.DeadTo.IsZero()
}

// Matches tells whether p has what no index knows.
func Matches(w *store.Sought, p *store.Parked) bool {
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
	return w.About == "" || held.Names(p.ID, w.About) ||
		slices.Contains([]string{m.CorrelationID, m.CausationID, m.Subject}, w.About)
}
