package memstore

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

type deferredRow struct {
	store.DeferredRow
	due time.Time
}

// put defers a row, or stores another attempt of a deferred row.
func (o *outboxTable) put(a store.DeferredRow, now time.Time) {
	was, there := o.deferred[a.Seq]
	if !there && a.Attempts > 1 {
		return // an operator dropped the row
	}
	if there {
		was.Attempts, was.Why = a.Attempts, a.Why
	} else {
		was.DeferredRow = a
		if i := slices.IndexFunc(o.rows, func(r outboxRow) bool { return r.Seq == a.Seq }); a.Fault != "" &&
			i >= 0 {
			was.Row = o.rows[i].Row // an unreadable row is copied unchanged
		}
		was.Message = copyMessage(was.Message)
	}
	was.Why = column.ClipReason(was.Why)
	was.due, was.Due = now.Add(a.Due), 0
	o.deferred[a.Seq] = was
}

// outboxKeyOf identifies the rows that a deferred row delays: those of its topic and key. A row without a key
// delays no other row.
type outboxKeyOf struct {
	topic, key string
	alone      int64
}

func (a deferredRow) keyOf() outboxKeyOf {
	if a.Key == nil {
		return outboxKeyOf{topic: a.Topic, alone: a.Seq}
	}
	return outboxKeyOf{topic: a.Topic, key: string(a.Key)}
}

// deferredOf returns the deferred rows of shards, by Seq.
func (o *outboxTable) deferredOf(shards []int) []deferredRow {
	rows := slices.DeleteFunc(slices.Collect(maps.Values(o.deferred)), func(a deferredRow) bool {
		return !slices.Contains(shards, o.shards[o.shardOf(a.Bucket)].ID)
	})
	slices.SortFunc(rows, func(a, b deferredRow) int { return cmp.Compare(a.Seq, b.Seq) })
	return rows
}

// Keys lists the keys with deferred rows.
func (o *outboxTable) Keys(shards []int) (out []store.DeferredKey) {
	seen := map[outboxKeyOf]bool{}
	for _, a := range o.deferredOf(shards) {
		if k := a.keyOf(); a.Key != nil && !seen[k] {
			seen[k] = true
			out = append(out, store.DeferredKey{Topic: a.Topic, Key: slices.Clone(a.Key),
				Shard: o.shards[o.shardOf(a.Bucket)].ID})
		}
	}
	slices.SortFunc(out, func(a, b store.DeferredKey) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), slices.Compare(a.Key, b.Key))
	})
	return out
}

// Due reads the deferred rows that are due now. The rows with the earliest due times come first.
func (o *outboxTable) Due(shards []int, limit int, now time.Time) (out []store.DeferredRow) {
	shut, head := map[outboxKeyOf]bool{}, map[outboxKeyOf]time.Time{}
	var due []deferredRow
	for _, a := range o.deferredOf(shards) {
		k := a.keyOf()
		if _, begun := head[k]; !begun {
			head[k] = a.due
			shut[k] = a.due.After(now)
		} else if a.Attempts > 0 {
			shut[k] = true
		}
		if shut[k] {
			continue
		}
		shut[k] = a.Attempts > 0
		due = append(due, a)
	}
	slices.SortStableFunc(due, func(a, b deferredRow) int { return head[a.keyOf()].Compare(head[b.keyOf()]) })
	bytes := 0
	for _, a := range due {
		if bytes += column.MessageBytes(&a.Message); len(out) == limit || bytes > store.PageBytes &&
			len(out) > 0 {
			return out
		}
		out = append(out, a.copied())
	}
	return out
}

// Refused reports whether the broker refused a row with this ID.
func (o *outboxTable) Refused(id string) bool {
	for _, a := range o.deferred {
		if a.refused(id) {
			return true
		}
	}
	return false
}

// Drop deletes the rows for which Refused is true.
func (o *outboxTable) Drop(id string) {
	maps.DeleteFunc(o.deferred, func(_ int64, a deferredRow) bool { return a.refused(id) })
}

func (a deferredRow) refused(id string) bool { return a.ID == id && a.Attempts > 0 }

// Deferred returns all deferred rows, by Seq.
func (o *outboxTable) Deferred() (out []store.DeferredRow) {
	for _, seq := range slices.Sorted(maps.Keys(o.deferred)) {
		out = append(out, o.deferred[seq].copied())
	}
	return out
}

func (a deferredRow) copied() store.DeferredRow {
	a.Message = copyMessage(a.Message)
	return a.DeferredRow
}
