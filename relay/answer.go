// This file processes the answers of the broker, and moves the acknowledged prefix of each shard.

package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

// answered records the broker's answer to a call, in the shards of its rows.
func (r *Relay) answered(c *call, err error) {
	r.inFlight -= c.rows
	r.bytes -= c.bytes
	telemetry.End(c.span, endOf(err), err)
	if c.deferred != nil {
		r.deferredAnswered(c, err)
		return
	}
	verdict := newVerdict(err)
	r.noteAnswer(verdict, c.rows)
	for i, s := range c.shards {
		p := c.pieces[i]
		if len(p.rows) == 0 {
			continue
		}
		s.pending--
		if s.gone {
			continue
		}
		r.judge(c, s, p, verdict)
		p.answered()
		s.advance()
		if s.failing && s.pending == 0 {
			r.restart(s)
		}
	}
}

// endOf returns the outcome for the trace span of a call.
func endOf(err error) string {
	if err == nil {
		return telemetry.Taken
	}
	return telemetry.NotDone
}

// verdict has the broker's answer for each row of a call.
type verdict struct {
	all  error // an outage: the state of each row is unknown
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

// judge records the answer for the rows of a piece. It defers refused rows, and marks rows as suspects if
// they must be published alone.
func (r *Relay) judge(c *call, s *shard, p *piece, v verdict) {
	p.done = true
	taken, run := 0, r.tel.Run(r.o.Now())
	for k, i := range p.at {
		row := p.rows[k]
		failed, refused := v.of(i)
		switch {
		case failed == nil && refused == nil:
			delete(s.suspects, row.Seq)
			delete(s.failed, row.Seq)
			taken++
			run.Took(&row.Message)
			r.topics.published(row.Topic)
			continue
		case refused != nil && (c.alone || r.refusedForGood(row.Topic, refused)):
			r.noteAlone(row.Topic, c.alone)
			r.deferRefused(s, p, row, refused)
			continue
		case errors.Is(failed, broker.ErrRecreated):
			r.topics.forget(row.Topic)
		case v.all == nil && failed != nil && r.deferRow(s, p, row, failed):
			continue
		case errors.Is(refused, broker.ErrNoTopic):
			r.noteMissingTopic(row.Topic, refused)
		case refused != nil:
			s.suspects[row.Seq] = true
		}
		r.tel.Failed(row.Topic)
		if p.failedSeq == 0 {
			p.failedSeq = row.Seq
		}
	}
	run.End()
	if p.failedSeq != 0 {
		// Stop the shard now. Answers may arrive out of order, and after this answer the driver no longer
		// holds back later rows.
		s.failing = true
	}
	r.count(func(h *Health) { h.Published += int64(taken) })
}

// noteMissingTopic records that the broker has no such topic, or that no consumer group has a queue for it.
// It logs each of the two reasons once.
func (r *Relay) noteMissingTopic(topic string, refused error) {
	why := fmt.Errorf("topic %s: %w", topic, broker.ErrNoTopic)
	none := (*broker.NoQueueError)(nil)
	if errors.As(refused, &none) {
		why = none
	}
	migrate := "skald migrate --broker URL --topic " + shortlog.Shell(topic)
	switch {
	case !r.topics.recordMissing(topic, why, r.o.Now()):
	case none != nil:
		r.o.Logger.Warn("relay: no consumer group has a queue for a topic; its rows are deferred until one has",
			"owner", r.o.Owner, "topic", topic, "remedy", "start a consumer, or run: "+migrate+" --group NAME")
	default:
		r.o.Logger.Warn("relay: a topic is missing; its rows are deferred until it is there", "owner",
			r.o.Owner, "topic", topic, "remedy", migrate+"; of a broker in this process: its MakeTopics")
	}
}

// deferRefused defers a row that the broker has refused because of the row itself. Later rows of its key wait
// for it.
func (r *Relay) deferRefused(s *shard, p *piece, row *store.Row, why error) {
	r.addDeferred(s, p, row, why)
	r.logDeferred(s, row, why)
}

// logDeferred logs a refused row. It logs a new reason immediately, and repeats a reason only at intervals.
func (r *Relay) logDeferred(s *shard, row *store.Row, why error) {
	if rows, due := r.refusals.countRefused(row.Topic, why.Error(), r.o.Now()); due {
		r.o.Logger.Warn("relay: row deferred", "owner", r.o.Owner, "shard", s.ID, "seq", row.Seq,
			"id", row.ID, "topic", row.Topic, "type", row.Type, "rows", rows, "error", why)
	}
}

func (r *Relay) addDeferred(s *shard, p *piece, row *store.Row, why error) {
	delete(s.suspects, row.Seq)
	s.block(&row.Message)
	p.deferred = append(p.deferred, store.DeferredRow{Row: *row, Attempts: 1, Why: why.Error(),
		Due: r.o.DeferFirst})
	r.scheduleDeferred(r.o.DeferFirst)
	r.count(func(h *Health) { h.Deferred++ })
	r.tel.Refused(row.Topic)
}

// restart moves a shard back to the last row before the first row that was not acknowledged.
func (r *Relay) restart(s *shard) {
	r.ungroup(s)
	if s.leaving {
		s.failing, s.stopped, s.pieces = false, false, nil
		return
	}
	s.beginReplay()
	s.fails++
	wait := backoff.After(s.fails, r.o.RetryFirst, r.o.RetryMost)
	if s.fails == 1 {
		wait = 0
	}
	r.joinGroup(s, r.o.Now().Add(wait))
}

// noteBroker records whether the broker answers. It logs the start of an outage immediately, repeats this at
// intervals, and logs the end.
func (r *Relay) noteBroker(err error) {
	isNew := r.noteOutage(&r.brokerAway, err)
	if err == nil {
		r.brokerVitals.Answered()
	} else {
		r.brokerVitals.Suspect()
	}
	switch {
	case err != nil && r.brokerLog.Due(r.o.Now()):
		what, level := "relay: the broker is away", vitals.BrokerLevel(err)
		if level == slog.LevelError {
			what = "relay: the broker refuses; check settings and rights"
		}
		r.o.Logger.Log(context.Background(), level, what, "owner", r.o.Owner, "error", err)
	case err == nil && isNew && r.brokerLog.Over():
		r.o.Logger.Info("relay: the broker is back", "owner", r.o.Owner)
	}
}
