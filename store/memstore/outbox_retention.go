package memstore

import (
	"slices"
	"time"
)

// Empty removes the rows that were written before, once every shard has passed them.
func (o *outboxTable) Empty(before time.Time) int64 {
	was := len(o.rows)
	o.rows = slices.DeleteFunc(o.rows, func(r outboxRow) bool { return o.leaves(r, before) })
	return int64(was - len(o.rows))
}

// Leaving is how many rows Empty would remove.
func (o *outboxTable) Leaving(before time.Time) (n int64) {
	for _, r := range o.rows {
		if o.leaves(r, before) {
			n++
		}
	}
	return n
}

func (o *outboxTable) leaves(r outboxRow, before time.Time) bool {
	return r.at.Before(before) && !slices.ContainsFunc(o.shards,
		func(l shardRow) bool { return !o.passed(l, r) })
}
