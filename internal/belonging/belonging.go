// Package belonging says when what a database keeps of a consumer may go to another name.
package belonging

import (
	"time"

	"github.com/skald-go/skald/store"
)

// Any is how many rows there are.
func Any(b *store.Belongings) int64 { return Done(b) + b.Positions + b.Types }

// Done is how many rows tell of something that the consumer did, or that somebody told it. Positions and
// types do not: where there is nothing else, it has only looked.
func Done(b *store.Belongings) int64 {
	return b.Marks + b.Controls + b.Parked + b.Dead + b.Quarantined + b.Steps + b.Floors
}

// Lives tells whether a process gave a sign of session within quiet.
func Sessions(b *store.Belongings, quiet time.Duration) bool { return b.Heard >= 0 && b.Heard < quiet }

// Movable tells whether a store carries a Rename out.
func Movable(found *store.Renamed, quiet time.Duration) bool {
	return Any(&found.Old) > 0 && Done(&found.New) == 0 && !Sessions(&found.Old, quiet) &&
		!Sessions(&found.New, quiet)
}
