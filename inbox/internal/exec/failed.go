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

// failure sorts an error: whose fault it is decides what becomes of the message.
func (x *Executor[TTx]) failure(ctx context.Context, e *partition.Entry, end undo, err error) Result {
	drop := func(what decide.Ending) Result {
		r := Result{Entry: e, What: what, Err: err}
		var own error // the handler ended the transaction
		ends := func(ctx context.Context, es ...store.Effect) ([]bool, error) {
			stood, ended := end(ctx, es...)
			if errors.Is(ended, store.ErrLent) {
				own = endedBy(e, ended)
			}
			return stood, ended
		}
		if what == decide.Outage {
			r.After = x.giveBack(ctx, e, ends)
		} else {
			_, _ = ends(ctx)
		}
		if own != nil {
			return x.failure(ctx, e, x.db.Apply, own)
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
	if stopped(ctx, err) || class == failure.Outage && x.stays(e, err) {
		return drop(decide.Outage)
	}
	k, now := x.Parcel(e), x.o.Now()
	if e.Parked == nil {
		k.First = e.First
	}
	up, _ := x.o.Up()
	charged := x.o.Retry.Charges(class, recordOf(k), now, up)
	first := k.Attempts == 0 && charged
	if first {
		k.Attempts = x.earlier(e)
	}
	record := x.failed(k, err.Error(), now, charged)
	k.Due = x.apart(e, x.o.Retry.Wait(class, record))
	r := Result{Entry: e, What: decide.Failed, After: k.Due, Err: err, Attempts: k.Attempts}
	if first {
		r.Print, r.Class = x.prints.Of(class, e.Type, err.Error()), class
	}
	if class == failure.Outage && !charged {
		r.What, r.Since = decide.Delayed, k.First.At
		return x.store(ctx, e, end, store.Effect{Park: k}, r)
	}
	effect := store.Effect{Park: k}
	kind := x.o.Retry.Dead(class, record)
	order, skip := x.skipped(class, e, err)
	if skip {
		kind, r.Print, k.Last.Why = failure.KindSkipped, "", errSkipped(order, err).Error()
	}
	if kind != "" {
		k.Dead = x.death(kind, class, e, err, now)
		k.Dead.BlocksKey = k.Dead.BlocksKey && !skip
		r.What = decide.Dead
		effect.Rows = x.o.Announce.Rows(ctx, &k.Parked)
	}
	return x.store(ctx, e, end, effect, r)
}

// earlier returns how often e failed elsewhere.
func (x *Executor[TTx]) earlier(e *partition.Entry) (n int) {
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

// A message that fails by what may pass waits at its place for the first attempts, since a deadlock or a
// failover are over by then. Then it is parked, with the time of its first failure, so that neither a restart
// nor another instance begins to count anew. Where many wait already, it is parked at once.
const (
	inPlace     = 3
	mostInPlace = 16
)

// suspectShare is which part of the time a message may take that stops all others while it runs.
const suspectShare = 20

// stays reports whether e waits at its place after a transient failure, or stays unchanged in the store. It
// does so while the database is away, too, because an attempt then proves nothing about the message.
func (x *Executor[TTx]) stays(e *partition.Entry, err error) bool {
	_, up := x.o.Up()
	if e.Parked != nil || !up {
		return !up
	}
	if e.First.At.IsZero() {
		e.First = store.Failure{At: x.o.Now(), Why: err.Error(), Host: x.o.Host}
	}
	return e.Again+1 < inPlace && x.o.InPlace() < mostInPlace
}

// stopped reports whether a handler was told to stop: then it has not failed.
func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil && !errors.Is(err, failure.ErrTimeout) &&
		!errors.Is(context.Cause(ctx), failure.ErrTimeout)
}

// apart returns wait, and more for a message that is run alone: the others go on in between.
func (x *Executor[TTx]) apart(e *partition.Entry, wait time.Duration) time.Duration {
	if !e.Alone {
		return wait
	}
	return max(wait, (suspectShare-1)*time.Since(e.Begun))
}

// skipped tells whether an operator has what fails so skipped.
func (x *Executor[TTx]) skipped(class failure.Class, e *partition.Entry,
	err error) (o control.Order, yes bool) {
	skips := x.skips.Load()
	if skips == nil || len(*skips) == 0 {
		return o, false
	}
	o, yes = (*skips)[x.prints.Of(class, e.Type, err.Error())]
	return o, yes
}

// errSkipped is noted with a dead letter that was skipped.
func errSkipped(o control.Order, err error) error {
	return errors.Join(err, fmt.Errorf("skipped, as %s told: %s", o.Who, o.Why))
}

// death is what a dead letter of e says of itself.
func (x *Executor[TTx]) death(kind string, class failure.Class, e *partition.Entry, err error,
	now time.Time) *store.Death {
	d := failure.NewDeath(kind, x.prints.Of(class, e.Type, err.Error()), err, now)
	d.Version, d.BlocksKey = x.o.Version, !x.o.FreeKey
	return d
}

// rejection is e as a dead letter that was rejected. Its verdict stays with its mark.
func (x *Executor[TTx]) rejection(e *partition.Entry, no *skald.RejectedError, code int32) *store.Park {
	k, now := x.Parcel(e), x.o.Now()
	k.Call = nil                                                // who redrives it asks anew
	k.Marked, k.Step, k.MostRows, k.MostBytes = true, nil, 0, 0 // the verdict says how its step stands
	text := no.Error()
	if code != 0 {
		text = fmt.Sprintf("rejected with code %d: %v", code, no.Err)
	}
	x.failed(k, text, now, false)
	k.Dead = x.death(failure.KindRejected, failure.KindRejected, e, errors.New(text), now)
	k.Dead.BlocksKey = x.o.RejectionsHold
	return k
}

func recordOf(k *store.Park) failure.Record {
	return failure.Record{Attempts: k.Attempts, First: k.First, Last: k.Last}
}

// failed notes a failed attempt in k.
func (x *Executor[TTx]) failed(k *store.Park, why string, now time.Time, charged bool) failure.Record {
	r := recordOf(k)
	r.Add(store.Failure{At: now, Why: why, Host: x.o.Host}, charged)
	k.Attempts, k.First, k.Last = r.Attempts, r.First, r.Last
	return r
}

// classify says what err means for a message. What Skald's own transaction or store failed by is an outage by
// then: see lentFailed and storeFailed.
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

// lentFailed is failure for what a handler, or another function of the user's, answered in unit. Where the
// transaction itself failed, it is an outage. Of a handler that took too long it does not count what became
// of its transaction.
func (x *Executor[TTx]) lentFailed(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	err error) Result {
	if errors.Is(err, failure.ErrTimeout) { // the database may have ended the session
		if _, back := unit.Rollback(ctx); errors.Is(back, store.ErrLent) {
			err = endedBy(e, back)
		}
		return x.failure(ctx, e, x.db.Apply, err)
	}
	err = x.unitsOwn(ctx, unit, err)
	if store.Incurable(err) {
		if _, back := unit.Rollback(ctx); errors.Is(back, store.ErrLent) {
			return x.failure(ctx, e, x.db.Apply, endedBy(e, back))
		}
		return x.failure(ctx, e, x.db.Apply, x.lent(ctx, err))
	}
	return x.failure(ctx, e, unit.Rollback, err)
}

// lent is err of a transaction that was lent to a function and has ended. An incurable err is the fault of
// the function, unless the check of the tables and rights fails, too: one message must not end the consumer.
func (x *Executor[TTx]) lent(ctx context.Context, err error) error {
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

// endedBy returns store.ErrLent as the error of the handler of e. The message becomes a dead letter at once:
// each attempt could repeat the statements that the handler sent outside of the transaction.
func endedBy(e *partition.Entry, err error) error {
	return fmt.Errorf("handle %s: the handler ended its transaction by a COMMIT or ROLLBACK of its own, so it is rolled back; "+
		"statements that the handler sent after that may be committed: remove the COMMIT or ROLLBACK, check those, then redrive: %w",
		e.TypeAndName(), err)
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
