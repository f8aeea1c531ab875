package store

import (
	"context"
	"time"
)

// WaitingRow is an unpublished row of the outbox, without its payload.
type WaitingRow struct {
	Seq       int64
	Shard     int
	ID        string
	Topic     string
	Type      string
	Key       []byte // nil for a row without a key
	Written   time.Time
	Age       time.Duration // since Written, by the store's clock
	Deferred  bool          // the broker refused this row, or an earlier row of its key
	Attempts  int           // number of refusals
	LastError string        // error of the last refusal
}

// WaitingScan limits the rows that List.Waiting examines after the position of the slowest shard.
const WaitingScan = 10_000

// ListWaiting lists the oldest unpublished rows of the outbox, oldest first, up to the given number. It needs
// the rights of a relay or a reader.
func ListWaiting(ctx context.Context, db Lister, most int) ([]WaitingRow, error) {
	l, err := db.List(ctx, List{Waiting: most})
	return l.Waiting, err
}
