package exec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/identity"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/lending"
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
		if c := x.o.Classify(m, err); c != "" {
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
	case errors.Is(err, partition.ErrNoEnvelope), errors.Is(err, identity.ErrNoID):
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

// Away tells of an error of our own call to the store whether it is nobody's fault.
func (x *Executor[TTx]) Away(err error) bool {
	return errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrLost) || x.db.Outage(err)
}

// mercy is how much longer than a handler may take its transaction lives.
const mercy = 5 * time.Second

// run calls the handler of e, with a bound on its time. One that took longer has failed, unless the whole
// consumer was told to end; and where its transaction may be gone meanwhile, what it says does not count.
func (x *Executor[TTx]) run(ctx context.Context, e *partition.Entry, tx TTx) (r Reply, err error) {
	begun := time.Now()
	hctx, cancel := context.WithTimeout(lends(skald.WithCause(ctx, e.Message), x.o.Group, tx, e.Message),
		x.o.Handle)
	defer cancel()
	over := x.acts.Begin(e, x.o.Handle)
	r, err = safely(x.handler(e), hctx, tx, e.Message)
	over()
	took := time.Since(begun)
	x.o.Telemetry.Ran(e.Topic, took)
	stopped := ctx.Err() != nil && !errors.Is(context.Cause(ctx), failure.ErrTimeout)
	switch {
	case took < x.o.Handle || stopped:
		return r, err
	case ctx.Err() != nil || took >= x.o.Handle+mercy:
		return r, fmt.Errorf("%w (%v): after %v it said: %v", failure.ErrTimeout, x.o.Handle,
			took.Round(time.Millisecond), err)
	case err != nil:
		return r, fmt.Errorf("%w (%v): %w", failure.ErrTimeout, x.o.Handle, err)
	}
	return r, nil
}

// lends is ctx for a handler of m, which gets tx.
func lends[TTx any](ctx context.Context, consumer string, tx TTx, m skald.Message) context.Context {
	return lending.With(ctx, lending.Loan{Tx: tx, Consumer: consumer, ID: m.ID, Type: m.Type})
}

func safely[TTx any](h Handler[TTx], ctx context.Context, tx TTx, m skald.Message) (r Reply, err error) {
	defer failure.Recover(&err)
	return h(ctx, tx, m)
}
