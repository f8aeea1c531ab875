package exec

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

// An undo is what ends a message's transaction, if there is one, and does something instead: Unit.Rollback or
// Store.Apply.
type undo func(ctx context.Context, instead ...store.Effect) ([]bool, error)

// Parcel is e as it is to be kept, with what is known of it so far.
func (x *Executor[TTx]) Parcel(e *partition.Entry) *store.Park {
	k := &store.Park{MostRows: x.o.KeyRows, MostBytes: x.o.KeyBytes, Step: e.Takes()}
	if e.Parked != nil {
		k.Parked = *e.Parked
		k.Claims, k.Session = 0, "" // this is the answer
		was := e.Parked.Attempts
		k.Was, k.WasCall = &was, e.CallKey()
		return k
	}
	k.Parked = store.Parked{Consumer: x.o.Group, Identity: e.Identity(), Message: e.Message,
		Partition: e.Partition, Position: e.Position, Fault: e.Kept()}
	k.Server = e.Server
	return k
}

// queue parks e behind those of its key.
func (x *Executor[TTx]) queue(ctx context.Context, e *partition.Entry, end undo) Result {
	return x.store(ctx, e, end, store.Effect{Park: x.Parcel(e)}, Result{Entry: e, What: decide.Queued})
}

// later parks e until the handler wants it again; that is no failure. A skald.RetryAfter waits for at least
// Retry.InitialInterval, and its reason is kept with e.
func (x *Executor[TTx]) later(ctx context.Context, e *partition.Entry, end undo,
	after time.Duration, err error) Result {
	k := x.Parcel(e)
	var asked *skald.LaterError
	if errors.As(err, &asked) {
		after = max(after, x.o.Retry.InitialInterval)
		k.Last.Why, k.Last.Host = err.Error(), x.o.Host // without a time it is no failed attempt
	}
	k.Due = after
	return x.store(ctx, e, end, store.Effect{Park: k},
		Result{Entry: e, What: decide.Later, After: after, Err: err})
}

// store ends the transaction of e and keeps it instead. If that is refused, it is not for us to know why yet:
// the next take finds out.
func (x *Executor[TTx]) store(ctx context.Context, e *partition.Entry, end undo,
	effect store.Effect, r Result) Result {
	if e.Parked == nil && effect.Park.Dead == nil && !x.o.Room() {
		_, _ = end(ctx)
		return Result{Entry: e, What: decide.Full, Err: fmt.Errorf("%w: %w", ErrFull, Cause(r.Err))}
	}
	// What the handler was given of time may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.o.Wait+5*time.Second)
	defer cancel()
	stands, err := end(ctx, effect)
	switch {
	case errors.Is(err, store.ErrLent) && !errors.Is(r.Err, store.ErrLent): // by the handler
		return x.failure(ctx, e, x.db.Apply, endedBy(e, err))
	case err != nil:
		return x.lastly(ctx, e, effect.Park, x.unkept(e, err, r.Err))
	case !stands[0] && e.Parked != nil:
		return Result{Entry: e, What: decide.Stale}
	case !stands[0]:
		return x.refused(ctx, e, effect.Park, r.Err)
	}
	return r
}

// ErrKeyFull is the failure of a dead letter of the kind key_full.
var ErrKeyFull = errors.New("inbox: no more may be parked of its key (Options.Limits.KeyRows, KeyBytes): " +
	"repair the first message of the key, then redrive this letter")

// refused ends an effect of which the store rejected the guard. A rival finished or kept the message, or its
// key is full. Of a full key it becomes a dead letter, which needs no room: else the messages of all other
// keys of its partition would wait behind it.
func (x *Executor[TTx]) refused(ctx context.Context, e *partition.Entry, p *store.Park, err error) Result {
	if r, is := x.keptAs(ctx, e, x.printed(e)); is {
		return r // its take may fail each time, and not find that out
	}
	full := Result{Entry: e, What: decide.Full, Err: fmt.Errorf("%w: %w", ErrFull, Cause(err))}
	if p.Dead != nil || !x.o.DeadRoom() {
		return full
	}
	r := x.untried(ctx, e, form{park: *p, announced: true}, failure.KindKeyFull,
		fmt.Errorf("%w: %w", ErrKeyFull, Cause(err)))
	if r.What == decide.Stale {
		return full // a rival finished it: the next attempt finds out
	}
	return x.lastly(ctx, e, p, r)
}

// lastly ends r, an attempt that the store did not keep. After many of them over minutes, e becomes a dead
// letter: else its partition stops. Of the forms of it the first that the store takes is kept.
func (x *Executor[TTx]) lastly(ctx context.Context, e *partition.Entry, p *store.Park, r Result) Result {
	if r.What != decide.NotParked || !e.Refused.Last(x.o.Now()) {
		return r
	}
	forms := []form{{park: *p, announced: true}, {park: *p}}
	if e.Parked == nil {
		forms = append(forms, form{park: bare(*p)})
	}
	err := fmt.Errorf("%w: %s", errUnkept, shortlog.Text(r.Err.Error(), mostCause))
	for _, f := range forms {
		if out := x.untried(ctx, e, f, failure.KindUnkept, err); out.What != decide.NotParked {
			return out
		}
	}
	return r
}

var errUnkept = errors.New("inbox: the store refused again and again to park it, for a reason that Skald " +
	"does not know: repair the store, then redrive this letter")

const mostCause = 1 << 10 // bytes

// form describes how a message is kept that could not be parked.
type form struct {
	park      store.Park
	announced bool
}

// bare returns p without payload and headers.
func bare(p store.Park) store.Park {
	m := &p.Message
	if failure.IsComplete(p.Fault) {
		p.Fault = fmt.Sprintf("%sits payload has %d bytes, SHA-256 %x", failure.FaultUnkept, len(m.Data),
			sha256.Sum256(m.Data))
	}
	m.Data, m.Headers = nil, nil
	return p
}

// untried makes a dead letter of a message that the store refused to park.
func (x *Executor[TTx]) untried(ctx context.Context, e *partition.Entry, f form, kind string,
	err error) Result {
	p, now := f.park, x.o.Now()
	x.failed(&p, err.Error(), now, false)
	p.MostRows, p.MostBytes, p.Due = 0, 0, 0
	p.Dead = x.death(kind, failure.Class(kind), e, err, now)
	effect := store.Effect{Park: &p}
	if f.announced {
		effect.Rows = x.o.Announce.Rows(ctx, &p.Parked)
	}
	stands, failed := x.db.Apply(ctx, effect)
	switch {
	case failed != nil:
		return x.unkept(e, failed, err)
	case !stands[0]:
		return Result{Entry: e, What: decide.Stale}
	}
	return Result{Entry: e, What: decide.Dead, Attempts: p.Attempts, Untried: true, Err: err}
}

// unkept is e after the store answered its parking with an error. Cause is why it was to be parked.
func (x *Executor[TTx]) unkept(e *partition.Entry, err, cause error) Result {
	r := Result{Entry: e, What: decide.Outage, Err: fmt.Errorf("park %s: %w", e.Name(), err)}
	switch {
	case store.Incurable(err) || errors.Is(err, store.ErrLent):
		r.What = decide.Broken
	case !x.Away(err) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
		r.What, r.Err = decide.NotParked, fmt.Errorf("%w; %w", r.Err, Cause(cause))
	}
	return r
}

// ErrFull is why a partition pauses: no more may be parked for the consumer.
var ErrFull = errors.New("inbox: no more may be parked")

// Cause is why a message is kept: err, or else that others of its key are.
func Cause(err error) error {
	if err == nil {
		return errors.New("others of its key are parked")
	}
	return err
}

// giveBack lets a claimed message be claimed again soon, instead of when its lease is over: the later, the
// more often it was given back. Nothing rests on it.
func (x *Executor[TTx]) giveBack(ctx context.Context, e *partition.Entry, end undo) (due time.Duration) {
	if e.Parked == nil {
		_, _ = end(ctx)
		return 0
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	k := x.Parcel(e)
	k.Due = x.o.Retry.WaitOutage(e.Again + 1)
	_, _ = end(ctx, store.Effect{Park: k})
	return k.Due
}

// freed ends the keeping of a message that was claimed.
func (x *Executor[TTx]) freed(e *partition.Entry) *store.Finish {
	if e.Parked == nil {
		return nil
	}
	attempts := e.Parked.Attempts
	return &store.Finish{Consumer: x.o.Group, Identity: e.Identity(), Attempts: &attempts,
		WasCall: e.CallKey(), Place: e.Parked.Place}
}

// keptAlready is for a message that came again while it is parked or a dead letter. Another one under its
// identity is a conflict, as it would be after its mark.
func (x *Executor[TTx]) keptAlready(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	print int64) Result {
	_, _ = unit.Rollback(ctx)
	if r, is := x.keptAs(ctx, e, print); is {
		return r
	}
	return Result{Entry: e, What: decide.Again} // it was finished in between
}

// keptAs is what becomes of a message whose identity is parked or a dead letter; false: none is.
func (x *Executor[TTx]) keptAs(ctx context.Context, e *partition.Entry, print int64) (r Result, is bool) {
	id := e.Identity()
	kept, err := store.ListParked(ctx, x.db, store.ParkedQuery{Consumer: x.o.Group, Identity: &id, Limit: 1})
	if err != nil {
		return x.storeFailed(ctx, e, fmt.Errorf("look up kept message %s: %w", id.ID, err)), true
	}
	if len(kept) == 0 {
		return r, false
	}
	was := &partition.Entry{Given: id}
	was.Message = kept[0].Message
	if p := x.printed(was); p == 0 || print == 0 || p == print || !failure.IsComplete(kept[0].Fault) {
		// perhaps by us, whose parking took effect and was not answered
		return Result{Entry: e, What: decide.Duplicate, Kept: true}, true
	}
	_, err = x.db.Apply(ctx, store.Effect{Quarantine: apartOf(x.o.Group, e, store.Conflict, print)})
	if err != nil {
		return x.storeFailed(ctx, e, fmt.Errorf("put %s into quarantine: %w", id.ID, err)), true
	}
	return Result{Entry: e, What: decide.Conflict}, true
}
