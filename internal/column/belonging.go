// This file decides whether the rows of a consumer may move to another name.

package column

import (
	"time"

	"github.com/skald-go/skald/store"
)

// Belonging returns the number of rows of a consumer.
func Belonging(b *store.ConsumerRows) int64 { return BelongingDone(b) + b.Positions + b.Types }

// BelongingDone returns the number of rows that record work of the consumer, or an order of an operator. It
// does not count positions and types, because a consumer with only these rows has not handled any message.
func BelongingDone(b *store.ConsumerRows) int64 {
	return b.Marks + b.Controls + b.Parked + b.Dead + b.Quarantined + b.Steps + b.Floors
}

// HasSession reports whether a process wrote a heartbeat within quiet.
func HasSession(b *store.ConsumerRows, quiet time.Duration) bool {
	return b.LastHeartbeat >= 0 && b.LastHeartbeat < quiet
}

// Movable reports whether the rows of a consumer may move to another name: the old name has rows, the new
// name has none that record work, and no process of either name sent a heartbeat within quiet.
func Movable(found *store.Renamed, quiet time.Duration) bool {
	return Belonging(&found.Old) > 0 && BelongingDone(&found.New) == 0 && !HasSession(&found.Old, quiet) &&
		!HasSession(&found.New, quiet)
}
