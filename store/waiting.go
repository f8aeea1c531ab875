package store

import (
	"context"
	"time"
)

// A WaitingRow is a row of the outbox that is not published, without its payload.
type WaitingRow struct {
	Seq       int64
	Shard     int
	ID        string
	Topic     string
	Type      string
	Key       []byte // nil: it has none
	Written   time.Time
	Age       time.Duration // since then, by the store's clock
	Deferred  bool          // the broker refused it, or an earlier one of its key
	Attempts  int           // that the broker refused
	LastError string        // of the last one
}

// WaitingScan is how many rows after the position of the slowest shard are read for List.Waiting, at most.
const WaitingScan = 10_000

// ListWaiting lists the oldest rows of the outbox that are not published, at most so many, the first written
// first. It needs the rights of a relay or a reader.
func ListWaiting(ctx context.Context, db Lister, most int) ([]WaitingRow, error) {
	l, err := db.List(ctx, List{Waiting: most})
	return l.Waiting, err
}
