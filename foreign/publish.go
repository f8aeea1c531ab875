// This file publishes rows, and processes the answers of the broker.

package foreign

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/telemetry"
)

// aloneMost is the maximum number of refused rows of a page that are published alone. The next page contains
// the others.
const aloneMost = 20

// publish publishes rows, and returns those that the broker acknowledged. An error is an outage: the state of
// each row is unknown.
func (r *Relay) publish(ctx context.Context, rows []*row) (taken []*row, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.publishMost())
	defer cancel()
	msgs := make([]skald.Message, len(rows))
	for i, one := range rows {
		msgs[i] = one.message
	}
	err = r.call(ctx, msgs)
	var part *broker.PublishError
	if r.proved = err == nil || errors.As(err, &part); !r.proved {
		return nil, fmt.Errorf("publish: %w", err)
	}
	var refused []*row
	failed := map[string]error{}
	for i, one := range rows {
		var no, later error
		if part != nil {
			no, later = part.Refused[i], part.Failed[i]
		}
		switch topic := one.message.Topic; {
		case errors.Is(no, broker.ErrNoTopic), errors.Is(later, broker.ErrNoTopic):
			r.deferTopic(topic, broker.ErrNoTopic, "create the topic: skald migrate --broker URL --topic "+
				topic)
		case no != nil:
			refused = append(refused, one)
		case later != nil:
			r.tel.Failed(topic)
			if !errors.Is(later, broker.ErrHeldBack) && !errors.Is(later, broker.ErrUnavailable) &&
				failed[topic] == nil {
				failed[topic] = later
			}
		default:
			taken = append(taken, one)
		}
	}
	r.took(taken)
	for topic, why := range failed {
		if r.deferred.countFailed(topic) {
			r.deferTopic(topic, why, "check the broker: it refuses the messages of this topic")
		}
	}
	alone, err := r.publishAlone(ctx, refused)
	return append(taken, alone...), err
}

// publishAlone publishes refused rows one by one, because another row may have caused the refusal.
func (r *Relay) publishAlone(ctx context.Context, rows []*row) (taken []*row, err error) {
	for i, one := range rows {
		if i == aloneMost {
			break
		}
		if r.mustWait(one) { // an earlier row of this loop was deferred
			continue
		}
		err := r.call(ctx, []skald.Message{one.message})
		var part *broker.PublishError
		switch {
		case err == nil:
			taken = append(taken, one)
			r.took(taken[len(taken)-1:])
		case !errors.As(err, &part):
			return taken, nil // an outage, which the next page reports; the taken rows must be marked
		case part.Refused[0] != nil:
			r.deferRow(one, part.Refused[0])
		default:
			r.tel.Failed(one.message.Topic)
			r.deferred.put(r.holdOf(one)) // so that no later row of its key overtakes it
		}
	}
	return taken, nil
}

// call publishes msgs, and waits at most Patience. If there is no answer, pending has the call, because the
// broker may still process it.
func (r *Relay) call(ctx context.Context, msgs []skald.Message) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.Patience)
	defer cancel()
	span := r.tel.Send(msgs)
	r.pending = r.bus.Publish(ctx, msgs)
	err := r.pending.Wait(ctx)
	outcome := telemetry.Taken
	if err != nil {
		outcome = telemetry.NotDone
	}
	telemetry.End(span, outcome, err)
	select {
	case <-r.pending.Done():
		r.pending = nil
	default:
	}
	return err
}

// settle waits for the answer to an earlier call, so that no later row overtakes its rows.
func (r *Relay) settle(ctx context.Context) error {
	if r.pending == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.Patience)
	defer cancel()
	select {
	case <-r.pending.Done():
		_ = r.pending.Wait(ctx) // the error was already reported, as an outage
		r.pending = nil
		return nil
	case <-ctx.Done():
		return errors.New("publish: the broker has not answered for an earlier page")
	}
}

func (r *Relay) took(rows []*row) {
	run := r.tel.Run(r.o.Now())
	for _, one := range rows {
		run.Took(&one.message)
		r.deferred.took(one)
	}
	run.End()
}

// holdOf returns the hold to defer a row: its key, or the row itself if it has no key or if the relay keeps
// no order.
func (r *Relay) holdOf(one *row) hold {
	if !r.table.rows() && one.key.Valid && len(one.key.String) <= complete.MaxKey {
		return hold{aKey, one.key.String}
	}
	return hold{aRow, one.name()}
}

// mustWait returns true if the topic, or an earlier row of the key, is deferred.
func (r *Relay) mustWait(one *row) bool {
	return r.deferred.holds(hold{aTopic, one.topic.String}) || r.deferred.holds(r.holdOf(one))
}

// deferRow defers a row that cannot be published. It logs this if the row or its key was not deferred before.
func (r *Relay) deferRow(one *row, why error) {
	h := r.holdOf(one)
	r.tel.Refused(one.message.Topic)
	if r.deferred.put(h) {
		r.o.Logger.Warn("relay: row deferred; it is retried at growing intervals", "table", r.table.Name,
			"row", one.readableName(),
			"topic", one.message.Topic, "its key waits", h.kind == aKey, "error", why)
	}
}

func (r *Relay) deferTopic(topic string, why error, remedy string) {
	r.tel.Refused(topic)
	if r.deferred.holds(hold{aTopic, topic}) { // another row of this page has deferred it
		return
	}
	if r.deferred.put(hold{aTopic, topic}) {
		r.o.Logger.Warn("relay: the rows of a topic are deferred; they are retried at growing intervals",
			"table", r.table.Name,
			"topic", topic, "error", why, "remedy", remedy)
	}
}
