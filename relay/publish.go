// This file publishes rows.

package relay

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/store"
)

// call is a call of broker.Publish in progress, with its rows by shard.
type call struct {
	shards []*shard
	pieces []*piece
	alone  bool // the call publishes one suspect, to find the row that the broker refuses
	// deferred has the rows of a call that retries deferred rows. Each row has an entry in shards. Such a
	// call has no pieces.
	deferred []store.DeferredRow
	rows     int
	bytes    int

	pending broker.Pending // set by Run only
	span    trace.Span     // nil if the call is not traced
}

// missingFor is the time for which a topic counts as missing. Then the relay asks the broker again.
const missingFor = 5 * time.Second

// publishRows publishes rows in order, and divides them into pieces by shard. It returns the memory of all
// rows, in bytes.
func (r *Relay) publishRows(g *group, rows []store.Row) (bytes int) {
	c, msgs := &call{}, make([]skald.Message, 0, len(rows))
	parts := map[*shard]*piece{}
	for i := range rows {
		row := &rows[i]
		size := column.Weight(&row.Message)
		bytes += size
		s := r.byBucket[row.Bucket]
		if s == nil || s.group != g || s.failing || s.leaving ||
			(s.Cursor.Base == g.base && s.Cursor.Tip == g.tip && row.Seq <= s.Cursor.Seq) ||
			s.skips(g, row) {
			continue
		}
		p := parts[s]
		if p == nil {
			share := len(rows)/len(g.shards) + 8
			p = &piece{rows: make([]*store.Row, 0, share), at: make([]int, 0, share)}
			parts[s] = p
			c.shards, c.pieces = append(c.shards, s), append(c.pieces, p)
			s.pieces = append(s.pieces, p)
		}
		p.after = store.Cursor{Base: g.base, Tip: g.tip, Seq: row.Seq}
		if why := r.deferral(s, row); why != nil {
			p.deferred = append(p.deferred, *why)
			r.scheduleDeferred(why.Due)
			s.block(&row.Message)
			delete(s.suspects, row.Seq)
			continue
		}
		s.noteTopic(row.Topic, r.topics.ids)
		p.rows, p.at = append(p.rows, row), append(p.at, len(msgs))
		msgs = appendOutgoing(msgs, row)
		c.bytes += size
	}
	c.rows = len(msgs)
	c.alone = g.isolating && c.rows == 1 && c.shards[0].suspects[c.pieces[0].rows[0].Seq]
	r.settleEmpty(c)
	if c.rows > 0 {
		r.send(c, msgs)
	}
	return bytes
}

// deferral returns the deferred row to store if a row cannot be published now, or nil. The reasons are an
// earlier deferred row of the key, undecodable content, a broken limit, and a missing topic.
func (r *Relay) deferral(s *shard, row *store.Row) *store.DeferredRow {
	if s.blocks(&row.Message) {
		return &store.DeferredRow{Row: *row}
	}
	if why := unpublishable(row); why != "" {
		r.count(func(h *Health) { h.Deferred++ })
		r.tel.Refused(row.Topic)
		a := &store.DeferredRow{Row: *row, Attempts: 1, Why: why, Due: r.o.DeferFirst}
		r.logDeferred(s, row, errors.New(why))
		return a
	}
	missing := r.topics.isMissing(row.Topic, r.o.Now)
	if missing == nil {
		return nil
	}
	r.count(func(h *Health) { h.Deferred++ })
	r.tel.Refused(row.Topic)
	return &store.DeferredRow{Row: *row, Attempts: 1, Why: missing.Error(), Due: r.o.DeferFirst}
}

// unpublishable returns the reason why no broker can transport a row, or "".
func unpublishable(row *store.Row) string {
	if large := row.Large; large != nil {
		why := fmt.Sprintf("it has %d bytes, more than %d, and was not read", large.Bytes, store.RowBytes)
		if large.SHA256 != "" {
			why += "; SHA-256 of its data: " + large.SHA256
		}
		return why
	}
	if row.Fault != "" {
		return row.Fault
	}
	if limit := complete.Broken(&row.Message); limit != "" {
		return "it breaks the limit " + limit + ", and its writer did not check that"
	}
	return ""
}

// settleEmpty counts the calls in progress of each shard. It finishes pieces that have no row to publish.
func (r *Relay) settleEmpty(c *call) {
	for i, p := range c.pieces {
		if len(p.rows) > 0 {
			c.shards[i].pending++
			continue
		}
		p.done = true
		c.shards[i].advance()
	}
}

// send starts a call. In Run, it returns before the answer. In Step, it waits for the answer.
func (r *Relay) send(c *call, msgs []skald.Message) {
	if r.inFlight == 0 {
		r.contact.open = r.o.Now()
	}
	r.inFlight += c.rows
	r.bytes += c.bytes
	c.span = r.tel.Send(msgs)
	r.publish(c, msgs)
}

// appendOutgoing appends the message of a row. It sets Sequence to the row's number in the outbox, so that
// consumers can detect a wrong order.
func appendOutgoing(msgs []skald.Message, row *store.Row) []skald.Message {
	msgs = append(msgs, row.Message)
	msgs[len(msgs)-1].Sequence = sequence(row.Seq)
	return msgs
}

func sequence(seq int64) string {
	var digits [20]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = '0' + byte(seq%10)
		seq /= 10
	}
	return string(digits[:])
}
