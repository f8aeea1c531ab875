// Package keptrow is what all stores do alike with the row of a kept message.
package keptrow

import "github.com/skald-go/skald/store"

// ByRow tells whether a list asks for what no index knows.
func ByRow(w *store.Sought) bool {
	return w.Topic+w.Type+w.Kind+w.About != "" || !w.DeadFrom.IsZero() || !w.DeadTo.IsZero()
}

// Matches tells whether p has what no index knows.
func Matches(w *store.Sought, p *store.Parked) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	m := &p.Message
	died := p.Dead != nil && is(w.Kind, p.Dead.Kind) && !p.Dead.At.Before(w.DeadFrom) && (w.DeadTo.IsZero() || p.Dead.At.Before(w.DeadTo))
	return is(w.Topic, m.Topic) && is(w.Type, m.Type) && (died || w.Kind == "" && w.DeadFrom.IsZero() && w.DeadTo.IsZero()) &&
		(w.About == "" || p.ID == w.About || m.CorrelationID == w.About || m.CausationID == w.About || m.Subject == w.About)
}
