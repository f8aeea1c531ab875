package relay

import (
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/store"
)

// A call is one Publish under way, with the pieces of it by shard.
type call struct {
	shards []*shard
	pieces []*piece
	alone  bool // one row, of which it was to be found out whether it is refused alone
	// a call of rows that were deferred, one of shards for each: then there are no pieces
	deferred []store.DeferredRow
	rows     int
	bytes    int

	pending broker.Pending // Run's
	span    trace.Span     // nil: nobody wants to see it
}

// missingFor is how long a topic is believed to be missing without asking again.
const missingFor = 5 * time.Second

// handOver gives rows to the broker, in order, and remembers what of them belongs to which shard.
func (r *Relay) handOver(g *group, rows []store.Row) {
	c, msgs := &call{}, make([]skald.Message, 0, len(rows))
	parts := map[*shard]*piece{}
	for i := range rows {
		row := &rows[i]
		l := r.byBucket[row.Bucket]
		if l == nil || l.group != g || l.trouble || l.leaving ||
			(l.Cursor.Base == g.base && l.Cursor.Tip == g.tip && row.Seq <= l.Cursor.Seq) ||
			l.passesOver(g, row) {
			continue
		}
		p := parts[l]
		if p == nil {
			share := len(rows)/len(g.shards) + 8
			p = &piece{rows: make([]*store.Row, 0, share), at: make([]int, 0, share)}
			parts[l] = p
			c.shards, c.pieces = append(c.shards, l), append(c.pieces, p)
			l.pieces = append(l.pieces, p)
		}
		p.after = store.Cursor{Base: g.base, Tip: g.tip, Seq: row.Seq}
		if why := r.mustWait(l, row); why != nil {
			p.deferred = append(p.deferred, *why)
			r.putOff(why.Due)
			l.hold(&row.Message)
			delete(l.suspects, row.Seq)
			continue
		}
		l.publishesTo(row.Topic, r.topics.ids)
		p.rows, p.at = append(p.rows, row), append(p.at, len(msgs))
		msgs = append(msgs, outgoing(row))
		c.bytes += column.Weight(&row.Message)
	}
	c.rows = len(msgs)
	c.alone = g.careful && c.rows == 1 && c.shards[0].suspects[c.pieces[0].rows[0].Seq]
	r.settleEmpty(c)
	if c.rows > 0 {
		r.send(c, msgs)
	}
}

// mustWait is how a row is deferred that cannot be published now: its key waits, it cannot be read, it breaks
// a limit, or its topic topic is missing.
func (r *Relay) mustWait(l *shard, row *store.Row) *store.DeferredRow {
	if l.holds(&row.Message) {
		return &store.DeferredRow{Row: *row}
	}
	if why := unfit(row); why != "" {
		r.count(func(h *Health) { h.Deferred++ })
		r.tel.Refused(row.Topic)
		a := &store.DeferredRow{Row: *row, Attempts: 1, Why: why, Due: r.o.DeferFirst}
		r.o.Logger.Warn("relay: row deferred", "owner", r.o.Owner, "shard", l.ID, "seq", row.Seq,
			"id", row.ID, "error", a.Why)
		return a
	}
	if !r.topics.isMissing(row.Topic, r.o.Now()) {
		return nil
	}
	r.count(func(h *Health) { h.Deferred++ })
	r.tel.Refused(row.Topic)
	return &store.DeferredRow{Row: *row, Attempts: 1, Why: "topic " + row.Topic + ": " +
		broker.ErrNoTopic.Error(), Due: r.o.DeferFirst}
}

// unfit says why a row cannot be published to any broker; "": it can.
func unfit(row *store.Row) string {
	if l := row.Large; l != nil {
		why := fmt.Sprintf("it has %d bytes, more than %d, and was not read", l.Bytes, store.RowBytes)
		if l.SHA256 != "" {
			why += "; SHA-256 of its data: " + l.SHA256
		}
		return why
	}
	if row.Fault != "" {
		return row.Fault
	}
	if limit := complete.Broken(&row.Message); limit != "" {
		return "it breaks the limit " + limit + ", which its writer vouched for"
	}
	return ""
}

// settleEmpty finishes the pieces of a call that hold no row to publish.
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

// send starts a call. publish is Run's, which hears of the answer later, or Step's, which waits for it.
func (r *Relay) send(c *call, msgs []skald.Message) {
	if r.inFlight == 0 {
		r.contact.open = r.o.Now()
	}
	r.inFlight += c.rows
	r.bytes += c.bytes
	c.span = r.tel.Send(msgs)
	r.publish(c, msgs)
}

// outgoing is the row as it travels: with its place in the outbox, by which an inversion can be seen.
func outgoing(row *store.Row) skald.Message {
	m := row.Message
	m.Sequence = sequence(row.Seq)
	return m
}

func sequence(seq int64) string {
	var digits [20]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = '0' + byte(seq%10)
		seq /= 10
	}
	return string(digits[:])
}
