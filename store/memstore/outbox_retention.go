package memstore

import (
	"slices"
	"time"
)

// Empty deletes the rows that are older than before and that every shard has passed.
func (o *outboxTable) Empty(before time.Time) int64 {
	was := len(o.rows)
	o.rows = slices.DeleteFunc(o.rows, func(r outboxRow) bool { return o.deletable(r, before) })
	return int64(was - len(o.rows))
}

// Leaving returns the number of rows that Empty would delete.
func (o *outboxTable) Leaving(before time.Time) (n int64) {
	for _, r := range o.rows {
		if o.deletable(r, before) {
			n++
		}
	}
	return n
}

func (o *outboxTable) deletable(r outboxRow, before time.Time) bool {
	return r.at.Before(before) && !slices.ContainsFunc(o.shards,
		func(l shardRow) bool { return !o.passed(l, r) })
}
