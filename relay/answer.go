package relay

import (
	"context"
	"errors"
	"log/slog"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

// answered writes the broker's answer to a call into the shards that had rows in it.
func (r *Relay) answered(c *call, err error) {
	r.inFlight -= c.rows
	r.bytes -= c.bytes
	telemetry.End(c.span, endOf(err), err)
	if c.deferred != nil {
		r.asideAnswered(c, err)
		return
	}
	verdict := newVerdict(err)
	r.heard(verdict, c.rows)
	for i, l := range c.shards {
		p := c.pieces[i]
		if len(p.rows) == 0 {
			continue
		}
		l.pending--
		if l.dead {
			continue
		}
		r.judge(c, l, p, verdict)
		p.answered()
		l.advance()
		if l.trouble && l.pending == 0 {
			r.restart(l)
		}
	}
}

// endOf is what the span of a call ends with.
func endOf(err error) string {
	if err == nil {
		return telemetry.Taken
	}
	return telemetry.NotDone
}

// A verdict is a broker's answer, by index in the call.
type verdict struct {
	all  error // an outage: nothing is known of any row
	rows *broker.PublishError
}

func newVerdict(err error) verdict {
	var part *broker.PublishError
	if err == nil || !errors.As(err, &part) {
		return verdict{all: err}
	}
	return verdict{rows: part}
}

func (v verdict) of(i int) (failed, refused error) {
	switch {
	case v.all != nil:
		return v.all, nil
	case v.rows == nil:
		return nil, nil
	}
	return v.rows.Failed[i], v.rows.Refused[i]
}

// judge finishes a piece: how far it was taken, and what is suspected of its rows.
func (r *Relay) judge(c *call, l *shard, p *piece, v verdict) {
	p.done = true
	taken, run := 0, r.tel.Run(r.o.Now())
	for k, i := range p.at {
		row := p.rows[k]
		failed, refused := v.of(i)
		switch {
		case failed == nil && refused == nil:
			delete(l.suspects, row.Seq)
			delete(l.failed, row.Seq)
			taken++
			run.Took(&row.Message)
			r.topics.took(row.Topic)
			continue
		case refused != nil && c.alone:
			r.setAside(l, p, row, refused)
			continue
		case errors.Is(failed, broker.ErrRecreated):
			r.topics.unlearn(row.Topic)
		case v.all == nil && failed != nil && r.deferRow(l, p, row, failed):
			continue
		case errors.Is(refused, broker.ErrNoTopic):
			r.misses(row.Topic)
		case refused != nil:
			l.suspects[row.Seq] = true
		}
		r.tel.Failed(row.Topic)
		if p.bad == 0 {
			p.bad = row.Seq
		}
	}
	run.End()
	if p.bad != 0 {
		// at once: answers may be heard out of order, and the broker holds nothing back any more
		l.trouble = true
	}
	r.count(func(h *Health) { h.Published += int64(taken) })
}

// misses notes that the broker does not have a topic, and says so once, however often it is asked again
// meanwhile.
func (r *Relay) misses(topic string) {
	if r.topics.miss(topic, r.o.Now()) {
		r.o.Logger.Warn("relay: a topic is missing; its rows are deferred until it is there", "owner",
			r.o.Owner, "topic", topic,
			"remedy", "skald migrate --broker URL --topic "+topic+"; of a broker in this process: its MakeTopics")
	}
}

// setAside takes a row out of the way that the broker refused alone; its key waits for it.
func (r *Relay) setAside(l *shard, p *piece, row *store.Row, why error) {
	r.putAside(l, p, row, why)
	r.o.Logger.Warn("relay: row deferred", "owner", r.o.Owner, "shard", l.ID, "seq", row.Seq, "id", row.ID,
		"topic", row.Topic, "type", row.Type, "error", why)
}

func (r *Relay) putAside(l *shard, p *piece, row *store.Row, why error) {
	delete(l.suspects, row.Seq)
	l.hold(&row.Message)
	p.deferred = append(p.deferred, store.DeferredRow{Row: *row, Attempts: 1, Why: why.Error(),
		Due: r.o.DeferFirst})
	r.putOff(r.o.DeferFirst)
	r.count(func(h *Health) { h.Deferred++ })
	r.tel.Refused(row.Topic)
}

// restart puts a shard that had a row not taken back to its acknowledged prefix.
func (r *Relay) restart(l *shard) {
	r.ungroup(l)
	if l.leaving {
		l.trouble, l.stopped, l.pieces = false, false, nil
		return
	}
	l.renew()
	l.fails++
	wait := backoff.After(l.fails, r.o.RetryFirst, r.o.RetryMost)
	if l.fails == 1 {
		wait = 0
	}
	r.groupFor(l, r.o.Now().Add(wait))
}

// reach notes whether the broker answers at all. It is told at first, then more and more seldom, and when it
// is over.
func (r *Relay) reach(err error) {
	isNew := r.away(&r.brokerAway, err)
	if err == nil {
		r.brokerVitals.Answered()
	} else {
		r.brokerVitals.Suspect()
	}
	switch {
	case err != nil && r.sayBroker.Due(r.o.Now()):
		what, level := "relay: the broker is away", vitals.BrokerLevel(err)
		if level == slog.LevelError {
			what = "relay: the broker refuses; check settings and rights"
		}
		r.o.Logger.Log(context.Background(), level, what, "owner", r.o.Owner, "error", err)
	case err == nil && isNew && r.sayBroker.Over():
		r.o.Logger.Info("relay: the broker is back", "owner", r.o.Owner)
	}
}
