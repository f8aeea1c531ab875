// This file ends failed attempts: it classifies the error, and keeps or parks the message or makes it a dead
// letter.

package exec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
)

// fail classifies an error and ends the attempt. It leaves the message in its partition, parks it, or makes
// it a dead letter.
func (x *Executor[TTx]) fail(ctx context.Context, e *partition.Entry, end rollbackFunc, err error) Result {
	drop := func(what decide.Ending) Result {
		r := Result{Entry: e, What: what, Err: err}
		var own error // the handler ended the transaction
		ends := func(ctx context.Context, es ...store.Effect) ([]bool, error) {
			applied, ended := end(ctx, es...)
			if errors.Is(ended, store.ErrLent) {
				own = endedByHandler(e, ended)
			}
			return applied, ended
		}
		if what == decide.Outage {
			r.After = x.releaseClaim(ctx, e, ends)
		} else {
			_, _ = ends(ctx)
		}
		if own != nil {
			return x.fail(ctx, e, x.db.Apply, own)
		}
		return r
	}
	if store.Incurable(err) {
		return drop(decide.Broken)
	}
	class := failure.Permanent // a handler that ends its transaction does so in each attempt
	if !errors.Is(err, store.ErrLent) {
		class = x.classify(e, err)
	}
	if stopped(ctx, err) || class == failure.Outage && x.retriesInPlace(e, err) {
		return drop(decide.Outage)
	}
	k, now := x.NewPark(e), x.o.Now()
	if e.Parked == nil {
		k.First, k.Failures = e.First, e.Failures
	}
	up, _ := x.o.Up()
	charged := x.o.Retry.Charges(class, recordOf(k), now, up)
	first := k.Attempts == 0 && charged
	if first {
		k.Attempts = x.earlierFailures(e)
	}
	record := x.recordFailure(k, err.Error(), now, charged)
	k.Due = x.retryDelay(e, x.o.Retry.Wait(class, record))
	r := Result{Entry: e, What: decide.Failed, After: k.Due, Err: err, Attempts: k.Attempts}
	if first {
		r.Print, r.Class = x.prints.Of(class, e.Type, err.Error()), class
	}
	if class == failure.Outage && !charged {
		r.What, r.Since = decide.Delayed, k.First.At
		return x.park(ctx, e, end, store.Effect{Park: k}, r)
	}
	effect := store.Effect{Park: k}
	kind := x.o.Retry.Dead(class, record)
	order, skip := x.skipOrder(class, e, err)
	if skip {
		kind, r.Print, k.Last.Why = failure.KindSkipped, "", errSkipped(order, err).Error()
	}
	if kind != "" {
		k.Dead = x.newDeath(kind, class, e, err, now)
		k.Dead.BlocksKey = k.Dead.BlocksKey && !skip
		r.What = decide.Dead
		effect.Rows = x.o.Announce.Rows(ctx, &k.Parked)
	}
	return x.park(ctx, e, end, effect, r)
}

// earlierFailures returns how often e failed before this consumer received it.
func (x *Executor[TTx]) earlierFailures(e *partition.Entry) (n int) {
	if x.o.Earlier == nil {
		return 0
	}
	d, count := deliveryOf(e), 0
	err := x.pure(e, "Options.Identity.Attempt.Count", func() error {
		count = x.o.Earlier(d)
		return nil
	})
	if err != nil {
		return 0
	}
	return max(0, count)
}

// After a temporary failure a message stays in its partition for inPlace attempts, because a deadlock or a
// failover is over by then. Then it is parked with the time of its first failure, which survives restarts and
// rebalances. If mostInPlace messages wait in partitions already, it is parked immediately.
const (
	inPlace     = 3
	mostInPlace = 16
)

// aloneShare limits the time of a message that runs while no other message runs: it gets 1/aloneShare of the
// time.
const aloneShare = 20

// retriesInPlace reports whether e waits for its retry without a change in the store. It returns true while
// the database is down, because an attempt then proves nothing about the message.
func (x *Executor[TTx]) retriesInPlace(e *partition.Entry, err error) bool {
	_, up := x.o.Up()
	if e.Parked != nil || !up {
		return !up
	}
	f := store.Failure{At: x.o.Now(), Why: err.Error(), Host: x.o.Host}
	if e.First.At.IsZero() {
		e.First = f
	}
	stays := e.Again+1 < inPlace && x.o.InPlace() < mostInPlace && hungEntries(err) == nil
	if stays {
		e.Failures = append(e.Failures, f)
	}
	return stays
}

// stopped reports whether the consumer stopped the handler, so that its error is no failure of the message.
func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil && !errors.Is(err, failure.ErrTimeout) &&
		!errors.Is(context.Cause(ctx), failure.ErrTimeout)
}

// retryDelay returns the given delay, or a longer delay for a message that runs alone, so that other
// messages run in between.
func (x *Executor[TTx]) retryDelay(e *partition.Entry, delay time.Duration) time.Duration {
	if !e.Alone {
		return delay
	}
	return max(delay, (aloneShare-1)*time.Since(e.Begun))
}

// skipOrder returns the order of an operator to skip failures like err. It returns false if there is none.
func (x *Executor[TTx]) skipOrder(class failure.Class, e *partition.Entry,
	err error) (o control.Order, yes bool) {
	skips := x.skips.Load()
	if skips == nil || len(*skips) == 0 {
		return o, false
	}
	o, yes = (*skips)[x.prints.Of(class, e.Type, err.Error())]
	return o, yes
}

// errSkipped returns the error of a dead letter that an operator skipped.
func errSkipped(o control.Order, err error) error {
	return errors.Join(err, fmt.Errorf("skipped by order of %s: %s", o.Who, o.Why))
}

// newDeath returns the reason why e becomes a dead letter.
func (x *Executor[TTx]) newDeath(kind string, class failure.Class, e *partition.Entry, err error,
	now time.Time) *store.Death {
	d := failure.NewDeath(kind, x.prints.Of(class, e.Type, err.Error()), err, now)
	d.Version, d.BlocksKey = x.o.Version, !x.o.FreeKey
	return d
}

// rejectedPark returns the dead letter of a rejected message. The mark of the message still has the
// rejection.
func (x *Executor[TTx]) rejectedPark(e *partition.Entry, rejected *skald.RejectedError,
	code int32) *store.Park {
	k, now := x.NewPark(e), x.o.Now()
	k.Call = nil                                                // a redrive plans a new call
	k.Marked, k.Step, k.MostRows, k.MostBytes = true, nil, 0, 0 // the rejection sets the state of the step
	text := rejected.Error()
	if code != 0 {
		text = fmt.Sprintf("rejected with code %d: %v", code, rejected.Err)
	}
	x.recordFailure(k, text, now, false)
	k.Dead = x.newDeath(failure.KindRejected, failure.KindRejected, e, errors.New(text), now)
	k.Dead.BlocksKey = x.o.RejectionsHold
	return k
}

func recordOf(k *store.Park) failure.Record {
	return failure.Record{Attempts: k.Attempts, First: k.First, Last: k.Last, Failures: k.Failures}
}

// recordFailure records a failed attempt in k.
func (x *Executor[TTx]) recordFailure(k *store.Park, why string, now time.Time, charged bool) failure.Record {
	r := recordOf(k)
	r.Add(store.Failure{At: now, Why: why, Host: x.o.Host}, charged)
	k.Attempts, k.First, k.Last, k.Failures = r.Attempts, r.First, r.Last, r.Failures
	return r
}

// classify returns the class of err. handlerFailed and storeFailed have already marked errors of the
// transaction and of store calls as outages.
func (x *Executor[TTx]) classify(e *partition.Entry, err error) failure.Class {
	class := failure.Of(err)
	if class == failure.Outage {
		return class
	}
	if x.o.Classify != nil {
		var c failure.Class
		m := copyOf(e)
		quit := x.pure(e, "Options.Retry.Classify", func() error { c = x.o.Classify(m, err); return nil })
		if quit != nil {
			x.o.Logger.Warn("inbox: Options.Retry.Classify failed", "consumer", x.o.Group, "id", e.ID, "type",
				e.Type, "error", quit)
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

// handlerFailed fails e with an error of a user's function in unit. If the transaction itself failed, the
// error is an outage, except after a timeout.
func (x *Executor[TTx]) handlerFailed(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	err error) Result {
	if hungEntries(err) != nil { // Reply's encoding, or a function other than the handler
		unit.Drop()
	}
	if errors.Is(err, failure.ErrTimeout) { // the database may have ended the session
		if _, back := unit.Rollback(ctx); errors.Is(back, store.ErrLent) {
			err = endedByHandler(e, back)
		}
		return x.fail(ctx, e, x.db.Apply, err)
	}
	err = x.asOutage(ctx, unit, err)
	if store.Incurable(err) {
		if _, back := unit.Rollback(ctx); errors.Is(back, store.ErrLent) {
			return x.fail(ctx, e, x.db.Apply, endedByHandler(e, back))
		}
		return x.fail(ctx, e, x.db.Apply, x.handlerFault(ctx, err))
	}
	return x.fail(ctx, e, unit.Rollback, err)
}

// handlerFault classifies the error of a transaction that a user's function used. An incurable error is the
// fault of the function, unless the check of the tables and rights fails, too. So one message does not end
// the consumer.
func (x *Executor[TTx]) handlerFault(ctx context.Context, err error) error {
	if !store.Incurable(err) {
		return err
	}
	switch broken := x.db.Check(ctx, store.App); {
	case broken == nil:
		return &store.LentError{Err: err}
	case store.Incurable(broken):
		return err
	default:
		return skald.Outage(&store.LentError{Err: fmt.Errorf("%w; and the check: %w", err, broken)})
	}
}

// endedByHandler returns the error of e after store.ErrLent. The message becomes a dead letter immediately,
// because each attempt could repeat the statements that the handler sent outside of the transaction.
func endedByHandler(e *partition.Entry, err error) error {
	return fmt.Errorf("handle %s: the handler ended its transaction by a COMMIT or ROLLBACK of its own, so it is rolled back; "+
		"statements that the handler sent after that may be committed: remove the COMMIT or ROLLBACK, check those, then redrive: %w",
		e.TypeAndName(), err)
}

// asOutage marks err as an outage if the unit itself failed.
func (x *Executor[TTx]) asOutage(ctx context.Context, unit store.Unit[TTx], err error) error {
	if unit.Outage(ctx, err) {
		return skald.Outage(err)
	}
	return err
}

// storeFailed fails e with an error of a call to the store.
func (x *Executor[TTx]) storeFailed(ctx context.Context, e *partition.Entry, err error) Result {
	if x.Unavailable(err) {
		err = skald.Outage(err)
	}
	return x.fail(ctx, e, x.db.Apply, err)
}

// intakeFailed fails e with an error of its intake. After ErrLost the message stays in its partition until
// the inbox has joined the group again. The intake ran on another server than the one on which the partition
// was opened. The database of that server may lack earlier messages.
func (x *Executor[TTx]) intakeFailed(ctx context.Context, e *partition.Entry, err error) Result {
	if errors.Is(err, store.ErrLost) {
		return Result{Entry: e, What: decide.Outage, After: x.releaseClaim(ctx, e, x.db.Apply),
			Err: skald.Outage(err)}
	}
	return x.storeFailed(ctx, e, err)
}

// Unavailable reports whether err is an outage of the store or a conflict. Such an error counts for no
// message.
func (x *Executor[TTx]) Unavailable(err error) bool {
	return errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrLost) || x.db.Outage(err)
}

// grace is how long a transaction stays open after the time limit of its handler.
const grace = 5 * time.Second
