// This file decides whether the rows of a consumer may move to another name.

package column

import (
	"time"

	"github.com/skald-go/skald/store"
)

// Belonging is how many rows there are.
func Belonging(b *store.Belongings) int64 { return BelongingDone(b) + b.Positions + b.Types }

// BelongingDone is how many rows tell of something that the consumer did, or that somebody told it.
// Positions and types do not: where there is nothing else, it has only looked.
func BelongingDone(b *store.Belongings) int64 {
	return b.Marks + b.Controls + b.Parked + b.Dead + b.Quarantined + b.Steps + b.Floors
}

// Lives tells whether a process gave a sign of session within quiet.
func HasSession(b *store.Belongings, quiet time.Duration) bool {
	return b.Heard >= 0 && b.Heard < quiet
}

// Movable tells whether a store carries a Rename out.
func Movable(found *store.Renamed, quiet time.Duration) bool {
	return Belonging(&found.Old) > 0 && BelongingDone(&found.New) == 0 && !HasSession(&found.Old, quiet) &&
		!HasSession(&found.New, quiet)
}
