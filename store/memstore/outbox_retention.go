package memstore

import (
	"slices"
	"time"
)

// Forget deletes the published rows from before the cutoff.
func (o *outboxTable) Forget(cutoff time.Time) int64 {
	was := len(o.rows)
	o.rows = slices.DeleteFunc(o.rows, func(r outboxRow) bool { return o.deletable(r, cutoff) })
	return int64(was - len(o.rows))
}

// Leaving returns the number of rows that Forget would delete.
func (o *outboxTable) Leaving(cutoff time.Time) (n int64) {
	for _, r := range o.rows {
		if o.deletable(r, cutoff) {
			n++
		}
	}
	return n
}

func (o *outboxTable) deletable(r outboxRow, cutoff time.Time) bool {
	return r.at.Before(cutoff) && !slices.ContainsFunc(o.shards,
		func(l shardRow) bool { return !o.passed(l, r) })
}
