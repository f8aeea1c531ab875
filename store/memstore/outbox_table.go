// The files outbox*.go have the outbox: its rows, the shards, and the deferred rows. The methods of
// outboxTable need no locks and never wait, because the caller has locked the database.

package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// outboxTable has the rows of the outbox and the progress of relays.
type outboxTable struct {
	id       string      // of the database, for ticks
	source   string      // of all messages of this database
	rows     []outboxRow // the visible rows, by Seq
	deferred map[int64]deferredRow
	shards   []shardRow
	sessions map[string]session // of relays, by owner
	moved    string             // the evidence that the database moved; "" without evidence

	seq     int64 // the last used sequence number
	commits int64 // number of the last commit with rows
}

// outboxRow is a message in the outbox.
type outboxRow struct {
	store.Row
	commit int64 // number of the commit that made the row visible
	at     time.Time
}

// newOutbox returns an empty outbox.
func newOutbox(id, source string, shards int) *outboxTable {
	return &outboxTable{id: id, source: source, deferred: map[int64]deferredRow{}, shards: cut(shards),
		sessions: map[string]session{}}
}

// Draw assigns a sequence number to m. Relays do not see the row before Publish.
func (o *outboxTable) Draw(m skald.Message, now time.Time) outboxRow {
	m = copyMessage(m)
	m.Source, m.Sequence = o.source, ""
	o.seq++
	return outboxRow{Row: store.Row{Message: m, Seq: o.seq, Bucket: column.Bucket(&m)}, at: now}
}

// Publish makes rows visible at a commit. It inserts them by number, because a transaction with small numbers
// may commit after one with large numbers.
func (o *outboxTable) Publish(rows []outboxRow) {
	o.commits++
	for _, r := range rows {
		r.commit = o.commits
		if n := len(o.rows); n == 0 || o.rows[n-1].Seq < r.Seq {
			o.rows = append(o.rows, r)
			continue
		}
		o.rows = slices.Insert(o.rows, o.indexAfter(r.Seq), r)
	}
}

// indexAfter returns the index of the first row with a larger number than seq.
func (o *outboxTable) indexAfter(seq int64) int {
	i, _ := slices.BinarySearchFunc(o.rows, seq+1, func(r outboxRow,
		s int64) int {
		return cmp.Compare(r.Seq, s)
	})
	return i
}

// Pull reads a page of a window.
func (o *outboxTable) Pull(w store.Window, limit int) (page store.Page, err error) {
	base, err := o.commitOf(w.Base)
	if err != nil {
		return page, err
	}
	tip, err := o.commitOf(w.Tip)
	if err != nil {
		return page, err
	}
	bytes := 0
	for _, r := range o.rows[o.indexAfter(w.After):] {
		if r.commit <= base || r.commit > tip || !within(w.Buckets, r.Bucket) {
			continue
		}
		if bytes += column.MessageBytes(&r.Message); len(page.Rows) == limit || bytes > store.PageBytes &&
			len(page.Rows) > 0 {
			return page, nil
		}
		page.Rows = append(page.Rows, r.copied())
	}
	page.Done = true
	return page, nil
}

func within(ranges [][2]int, bucket int) bool {
	return ranges == nil || slices.ContainsFunc(ranges,
		func(r [2]int) bool { return r[0] <= bucket && bucket <= r[1] })
}

// Rows returns all rows, by Seq.
func (o *outboxTable) Rows() []store.Row {
	out := make([]store.Row, len(o.rows))
	for i, r := range o.rows {
		out[i] = r.copied()
	}
	return out
}

// copied returns a copy of the row that the caller may change.
func (r outboxRow) copied() store.Row {
	r.Message = copyMessage(r.Message)
	return r.Row
}
