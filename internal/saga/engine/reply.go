package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// Replies returns the topics and types of all replies to commands of this build's definitions.
func (e *Engine[TTx]) Replies() []kind {
	e.asked.Store(true)
	return kinds(e.book)
}

// ReplyAll applies participants' replies to their sagas, in the transaction of an inbox. One statement
// locks and reads all sagas, and another writes them, regardless of the number of replies. emitNext then
// adds the commands that follow. ReplyAll counts the outcomes, and logs each reply that has no effect.
// After an error it counts nothing. The result guilty is the index of the first reply with an error of its
// own, or -1.
func (e *Engine[TTx]) ReplyAll(ctx context.Context, tx TTx, ms []skald.Message) (guilty int, err error) {
	all, groups := sort(e.book, ms)
	if err := e.open(ctx, tx, groups); err != nil {
		if own := (*fault)(nil); errors.As(err, &own) {
			return own.At, own.Err
		}
		return -1, err
	}
	e.emitNext(ctx, tx, groups)
	if err := e.deliver(ctx, tx, groups...); err != nil {
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
		e.o.Logger.WarnContext(msgContext(ctx, *m), "saga: a reply has no effect", "saga", name, "key", key,
			"outcome", string(r.Out), "topic", m.Topic, "type", m.Type, "id", m.ID,
			"causation", m.CausationID)
	}
	return -1, nil
}

// Answer applies a message as a reply to the saga of a key. The message may have a causation id that names
// its command. This id is optional.
func (e *Engine[TTx]) Answer(ctx context.Context, tx TTx, d *Definition, key string,
	m skald.Message) (plan.Outcome, error) {
	to, r := newGroup(d, key, m)
	err := e.open(ctx, tx, []*replyGroup{to})
	if err == nil {
		err = e.deliver(ctx, tx, to)
	}
	if err != nil {
		return plan.Unknown, fmt.Errorf("take %s as a reply to %s %q: %w", m.Type, d.Name, key, err)
	}
	e.tally.Replied(r.Out)
	return r.Out, nil
}

// open locks the sagas of groups, and applies their replies in memory. If replies have errors of their own,
// open returns the *fault of the first such reply in the batch.
func (e *Engine[TTx]) open(ctx context.Context, tx TTx, groups []*replyGroup) error {
	refs := make([]store.SagaRef, len(groups))
	for i, to := range groups {
		refs[i] = store.SagaRef{Name: to.Name, Key: to.Key}
	}
	ss, err := e.lockAll(ctx, tx, refs...)
	if err != nil {
		return fmt.Errorf("lock %d sagas: %w", len(refs), err)
	}
	var guilt *fault
	for i, to := range groups {
		if guilt != nil && to.First() > guilt.At {
			continue
		}
		err := to.Take(ctx, ss[i], ss[i].Name != "", e.book, e.clock)
		if own := (*fault)(nil); errors.As(err, &own) {
			if guilt == nil || own.At < guilt.At {
				guilt = own
			}
		} else if err != nil {
			return err
		}
	}
	if guilt != nil {
		return guilt
	}
	return nil
}

// deliver writes the sagas to which replies were applied.
func (e *Engine[TTx]) deliver(ctx context.Context, tx TTx, groups ...*replyGroup) error {
	var es []store.Effect
	for _, to := range groups {
		es = append(es, to.Effects...)
	}
	if len(es) == 0 {
		return nil
	}
	if err := e.db.Write(ctx, tx, es...); err != nil {
		return fmt.Errorf("write the replies to %d sagas: %w", len(es), err)
	}
	for _, to := range groups { // counts even if the transaction is rolled back later
		for _, c := range to.Changes {
			e.tally.Ran(to.Name, c)
		}
		e.tally.Alarms(to.Saga, to.Alarms)
		if to.Back != nil {
			e.tally.TurnedBack(to.Saga, to.Back)
		}
	}
	if slices.ContainsFunc(es, func(one store.Effect) bool { return one.Saga.Wake >= 0 }) {
		e.kick() // the change is visible once the caller has committed
	}
	return nil
}
