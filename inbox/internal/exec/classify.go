package exec

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// classify says what err means for a message. What Skald's own transaction or store failed by is an outage by
// then: see lentFailed and storeFailed.
func (x *Executor[TTx]) classify(m skald.Message, err error) failure.Class {
	class := failure.Of(err)
	if class == failure.Outage {
		return class
	}
	if x.o.Classify != nil {
		var c failure.Class
		quit := failure.Run(func() error { c = x.o.Classify(m, err); return nil })
		if quit != nil {
			x.o.Logger.Warn("inbox: Options.Classify failed", "consumer", x.o.Group, "id", m.ID, "type",
				m.Type, "error", quit)
		} else if c != "" {
			return c
		}
	}
	if class != failure.Transient && class != failure.Malformed || errors.Is(err, failure.ErrTimeout) {
		return class
	}
	var large *broker.TooLargeError
	switch {
	case errors.As(err, &large), errors.Is(err, partition.ErrTooLarge):
		return failure.TooLarge
	case errors.Is(err, partition.ErrUnkept):
		return failure.Permanent
	case errors.Is(err, partition.ErrNoEnvelope), errors.Is(err, ErrNoID), errors.Is(err, ErrNoType):
		return failure.Malformed
	}
	return class
}

// lentFailed is failure for what a handler, or another function of the user's, answered in unit. Where the
// transaction itself failed, it is an outage. Of a handler that took too long it does not count what became
// of its transaction.
func (x *Executor[TTx]) lentFailed(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	err error) Result {
	if errors.Is(err, failure.ErrTimeout) {
		_, _ = unit.Rollback(ctx) // whose session the database may have ended
		return x.failure(ctx, e, x.db.Apply, err)
	}
	return x.failure(ctx, e, unit.Rollback, x.unitsOwn(ctx, unit, err))
}

func (x *Executor[TTx]) unitsOwn(ctx context.Context, unit store.Unit[TTx], err error) error {
	if unit.Outage(ctx, err) {
		return skald.Outage(err)
	}
	return err
}

// storeFailed is failure for what a call of our own to the store answered.
func (x *Executor[TTx]) storeFailed(ctx context.Context, e *partition.Entry, err error) Result {
	if x.Away(err) {
		err = skald.Outage(err)
	}
	return x.failure(ctx, e, x.db.Apply, err)
}

// takeFailed is storeFailed for an intake. One that lost its guard ran on another server than the one that
// the partition began on. The message stays at its place until the inbox has joined again: the messages
// before it may be gone from that database.
func (x *Executor[TTx]) takeFailed(ctx context.Context, e *partition.Entry, err error) Result {
	if errors.Is(err, store.ErrLost) {
		return Result{Entry: e, What: decide.Outage, After: x.giveBack(ctx, e, x.db.Apply),
			Err: skald.Outage(err)}
	}
	return x.storeFailed(ctx, e, err)
}

// Away tells of an error of our own call to the store whether it is nobody's fault.
func (x *Executor[TTx]) Away(err error) bool {
	return errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrLost) || x.db.Outage(err)
}

// mercy is how much longer than a handler may take its transaction lives.
const mercy = 5 * time.Second
