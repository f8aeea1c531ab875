package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// An undo is what ends a message's transaction, if there is one, and does something instead: Unit.Rollback or
// Store.Apply.
type undo func(ctx context.Context, instead ...store.Effect) ([]bool, error)

// parcel is e as it is to be kept, with what is known of it so far.
func (in *Inbox[TTx]) parcel(e *partition.Entry) *store.Park {
	k := &store.Park{MostRows: in.o.Limits.KeyRows, MostBytes: in.o.Limits.KeyBytes, Step: e.Takes()}
	if e.Parked != nil {
		k.Parked = *e.Parked
		k.Claims, k.Session = 0, "" // this is the answer
		was := e.Parked.Attempts
		k.Was, k.WasCall = &was, e.CallKey()
		return k
	}
	k.Parked = store.Parked{Consumer: in.group, Identity: e.Identity(), Message: e.Message, Partition: e.Partition, Position: e.Position}
	if !e.Readable() {
		k.Fault = unreadable(e).Error()
		if e.TooLarge() {
			k.Fault = faultTooLarge + k.Fault
		}
	}
	return k
}

// queue parks e behind those of its key.
func (in *Inbox[TTx]) queue(ctx context.Context, e *partition.Entry, end undo) result {
	return in.store(ctx, e, end, store.Effect{Park: in.parcel(e)}, result{entry: e, what: decide.Queued})
}

// later parks e until the handler wants it again; that is no failure.
func (in *Inbox[TTx]) later(ctx context.Context, e *partition.Entry, end undo, after time.Duration, err error) result {
	k := in.parcel(e)
	k.Due = after
	return in.store(ctx, e, end, store.Effect{Park: k}, result{entry: e, what: decide.Later, after: after, err: err})
}

// failure sorts an error: whose fault it is decides what becomes of the message.
func (in *Inbox[TTx]) failure(ctx context.Context, e *partition.Entry, end undo, err error) result {
	drop := func(what decide.Ending) result {
		r := result{entry: e, what: what, err: err}
		if what == decide.Outage {
			r.after = in.giveBack(ctx, e, end)
		} else {
			_, _ = end(ctx)
		}
		return r
	}
	if store.Incurable(err) || errors.Is(err, store.ErrLent) {
		return drop(decide.Broken)
	}
	class := in.classify(e.Message, err)
	if class == failure.Outage || ctx.Err() != nil && !errors.Is(err, failure.ErrTimeout) {
		// a handler that is told to stop has not failed
		return drop(decide.Outage)
	}
	k, now := in.parcel(e), in.o.Now()
	first := k.Attempts == 0
	if first {
		k.Attempts = in.earlier(e)
	}
	record := in.failed(k, err.Error(), now, class.Charged())
	k.Due = in.retry.Wait(class, record)
	r := result{entry: e, what: decide.Failed, after: k.Due, err: err, attempts: k.Attempts}
	if first && class.Charged() {
		r.print, r.class = in.prints.Of(class, e.Type, err.Error()), class
	}
	effect := store.Effect{Park: k}
	kind := in.retry.Dead(class, record)
	order, skip := in.skipped(class, e, err)
	if skip {
		kind, r.print, k.Last.Why = failure.KindSkipped, "", errSkipped(order, err).Error()
	}
	if kind != "" {
		k.Dead = in.death(kind, class, e, err, now)
		k.Dead.BlocksKey = k.Dead.BlocksKey && !skip
		r.what = decide.Dead
		effect.Rows = in.announce.Rows(ctx, &k.Parked)
	}
	return in.store(ctx, e, end, effect, r)
}

// store ends the transaction of e and keeps it instead. If that is refused, it is not for us to know why yet:
// the next take finds out.
func (in *Inbox[TTx]) store(ctx context.Context, e *partition.Entry, end undo, effect store.Effect, r result) result {
	if e.Parked == nil && effect.Park.Dead == nil && !in.room() {
		_, _ = end(ctx)
		return result{entry: e, what: decide.Full, err: fmt.Errorf("%w: %w", ErrFull, cause(r.err))}
	}
	// What the handler was given of time may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), in.o.Timeouts.Wait+5*time.Second)
	defer cancel()
	stands, err := end(ctx, effect)
	switch {
	case err != nil && (store.Incurable(err) || errors.Is(err, store.ErrLent)):
		return result{entry: e, what: decide.Broken, err: fmt.Errorf("park %s: %w", e.ID, err)}
	case err != nil && !in.away(err) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
		return result{entry: e, what: decide.Unkept, err: fmt.Errorf("park %s: %w; %w", e.ID, err, cause(r.err))}
	case err != nil:
		return result{entry: e, what: decide.Outage, err: fmt.Errorf("park %s: %w", e.ID, err)}
	case !stands[0] && e.Parked != nil:
		return result{entry: e, what: decide.Stale}
	case !stands[0]: // finished or kept by a rival, or its key is full
		if kept, is := in.keptAs(ctx, e, in.printed(e)); is {
			return kept // its take may fail each time, and not find that out
		}
		return result{entry: e, what: decide.Full, err: fmt.Errorf("%w: %w", ErrFull, cause(r.err))}
	}
	return r
}

// ErrFull is why a partition pauses: no more may be parked of a key or for the consumer.
var ErrFull = errors.New("inbox: no more may be parked")

func cause(err error) error {
	if err == nil {
		return errors.New("others of its key are parked")
	}
	return err
}

// room tells whether the consumer may park more.
func (in *Inbox[TTx]) room() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.kept.Parked < in.o.Limits.ParkedRows && in.kept.Bytes < in.o.Limits.ParkedBytes
}

// giveBack lets a claimed message be claimed again soon, instead of when its lease is over: the later, the
// more often it was given back. Nothing rests on it.
func (in *Inbox[TTx]) giveBack(ctx context.Context, e *partition.Entry, end undo) (due time.Duration) {
	if e.Parked == nil {
		_, _ = end(ctx)
		return 0
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	k := in.parcel(e)
	k.Due = in.retry.WaitOutage(e.Again + 1)
	_, _ = end(ctx, store.Effect{Park: k})
	return k.Due
}

// freed ends the keeping of a message that was claimed.
func (in *Inbox[TTx]) freed(e *partition.Entry) *store.Finish {
	if e.Parked == nil {
		return nil
	}
	attempts := e.Parked.Attempts
	return &store.Finish{Consumer: in.group, Identity: e.Identity(), Attempts: &attempts, WasCall: e.CallKey(), Place: e.Parked.Place}
}

// keptAlready is for a message that came again while it is parked or a dead letter. Another one under its
// identity is a conflict, as it would be behind its mark.
func (in *Inbox[TTx]) keptAlready(ctx context.Context, e *partition.Entry, unit store.Unit[TTx], print int64) result {
	_, _ = unit.Rollback(ctx)
	if r, is := in.keptAs(ctx, e, print); is {
		return r
	}
	return result{entry: e, what: decide.Again} // it was finished in between
}

// keptAs is what becomes of a message whose identity is parked or a dead letter; false: none is.
func (in *Inbox[TTx]) keptAs(ctx context.Context, e *partition.Entry, print int64) (r result, is bool) {
	id := e.Identity()
	kept, err := store.ListKept(ctx, in.db, store.Sought{Consumer: in.group, Identity: &id, Limit: 1})
	if err != nil {
		return in.storeFailed(ctx, e, fmt.Errorf("look up kept message %s: %w", id.ID, err)), true
	}
	if len(kept) == 0 {
		return r, false
	}
	was := &partition.Entry{Given: id}
	was.Message = kept[0].Message
	if p := in.printed(was); p == 0 || print == 0 || p == print {
		// perhaps by us, whose parking took effect and was not answered
		return result{entry: e, what: decide.Duplicate, kept: true}, true
	}
	if _, err := in.db.Apply(ctx, store.Effect{Quarantine: apartOf(in.group, e, store.Conflict, print)}); err != nil {
		return in.storeFailed(ctx, e, fmt.Errorf("put %s into quarantine: %w", id.ID, err)), true
	}
	return result{entry: e, what: decide.Conflict}, true
}
