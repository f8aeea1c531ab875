package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// Replies are the kinds of messages that participants reply with.
func (e *Engine[TTx]) Replies() []kind {
	e.asked.Store(true)
	return kinds(e.book)
}

// ReplyAll takes participants' replies into their sagas, in the transaction of an inbox. Each saga is locked,
// read and written once, however many replies it gets. What they came to is counted, and logged where they
// did not count: that is no failure, and not tried again. With an error nothing is counted, and guilty is the
// first reply that has one of its own; -1: it is none's.
func (e *Engine[TTx]) ReplyAll(ctx context.Context, tx TTx, ms []skald.Message) (guilty int, err error) {
	all, mails := sort(e.book, ms)
	var guilt *fault
	for _, to := range mails {
		if guilt != nil && to.First() > guilt.At {
			continue
		}
		err := e.open(ctx, tx, to)
		if own := (*fault)(nil); errors.As(err, &own) {
			if guilt == nil || own.At < guilt.At {
				guilt = own
			}
		} else if err != nil {
			return -1, err
		}
	}
	if guilt != nil {
		return guilt.At, guilt.Err
	}
	if err := e.deliver(ctx, tx, mails...); err != nil {
		return -1, err
	}
	for i := range all {
		r := &all[i]
		e.tally.Replied(r.Out)
		if r.Out == foreign || r.Out == plan.Repeat || r.Out.Changed() {
			continue
		}
		m := &r.Message
		name, key, _, _ := parse(m.CorrelationID)
		e.o.Logger.WarnContext(about(ctx, *m), "saga: a reply does not count", "saga", name, "key", key,
			"outcome", string(r.Out), "topic", m.Topic, "type", m.Type, "id", m.ID,
			"causation", m.CausationID)
	}
	return -1, nil
}

// Answer takes a message as a reply to the saga of a key, whatever the message says of its cause.
func (e *Engine[TTx]) Answer(ctx context.Context, tx TTx, d *Definition, key string,
	m skald.Message) (plan.Outcome, error) {
	to, r := to(d, key, m)
	err := e.open(ctx, tx, to)
	if err == nil {
		err = e.deliver(ctx, tx, to)
	}
	if err != nil {
		return plan.Unknown, fmt.Errorf("take %s as a reply to %s %q: %w", m.Type, d.Name, key, err)
	}
	e.tally.Replied(r.Out)
	return r.Out, nil
}

// open locks the saga of a mail, and finds out what its replies come to.
func (e *Engine[TTx]) open(ctx context.Context, tx TTx, to *mail) error {
	s, there, err := e.lock(ctx, tx, to.Name, to.Key)
	if err != nil {
		return fmt.Errorf("lock the saga %s %q: %w", to.Name, to.Key, err)
	}
	return to.Take(ctx, s, there, e.book, e.clock)
}

// deliver writes the sagas of mails.
func (e *Engine[TTx]) deliver(ctx context.Context, tx TTx, mails ...*mail) error {
	var es []store.Effect
	for _, to := range mails {
		es = append(es, to.Effects...)
	}
	if len(es) == 0 {
		return nil
	}
	if err := e.db.Write(ctx, tx, es...); err != nil {
		return fmt.Errorf("write what %d sagas were replied: %w", len(es), err)
	}
	for _, to := range mails { // which may still be rolled back
		for _, c := range to.Changes {
			e.tally.Ran(to.Name, c)
		}
		e.tally.Alarms(to.Saga, to.Told)
		if to.Back != nil {
			e.tally.TurnedBack(to.Saga, to.Back)
		}
	}
	e.kick() // it is seen once the caller has committed
	return nil
}
