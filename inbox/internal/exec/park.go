// This file parks messages, also as dead letters, and handles the store's refusals to park.

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

// rollbackFunc ends the transaction of a message, if there is one, and applies effects instead. It is
// Unit.Rollback or Driver.Apply.
type rollbackFunc func(ctx context.Context, effects ...store.Effect) ([]bool, error)

// NewPark returns the effect that parks e, with the attempts so far.
func (x *Executor[TTx]) NewPark(e *partition.Entry) *store.Park {
	k := &store.Park{MostRows: x.o.KeyRows, MostBytes: x.o.KeyBytes, Step: e.Takes()}
	if e.Parked != nil {
		k.Parked = *e.Parked
		k.Claims, k.Session = 0, "" // the effect ends the claim
		was := e.Parked.Attempts
		k.Was, k.WasCall = &was, e.CallKey()
		return k
	}
	k.Parked = store.Parked{Consumer: x.o.Group, Identity: e.Identity(), Message: e.Message,
		Partition: e.Partition, Position: e.Position, Fault: e.Kept()}
	k.Server = e.Server
	return k
}

// parkBehind parks e behind earlier messages of its key.
func (x *Executor[TTx]) parkBehind(ctx context.Context, e *partition.Entry, end rollbackFunc) Result {
	return x.park(ctx, e, end, store.Effect{Park: x.NewPark(e)}, Result{Entry: e, What: decide.Queued})
}

// parkFor parks the message e for the duration delay, without a failed attempt. After skald.RetryAfter it
// waits for at least Retry.InitialInterval, and stores the reason.
func (x *Executor[TTx]) parkFor(ctx context.Context, e *partition.Entry, end rollbackFunc,
	delay time.Duration, err error) Result {
	k := x.NewPark(e)
	var asked *skald.LaterError
	if errors.As(err, &asked) {
		delay = max(delay, x.o.Retry.InitialInterval)
		k.Last.Why, k.Last.Host = err.Error(), x.o.Host // Last.At stays zero, so this is no failed attempt
	}
	k.Due = delay
	return x.park(ctx, e, end, store.Effect{Park: k},
		Result{Entry: e, What: decide.Later, After: delay, Err: err})
}

// park ends the transaction of e and applies effect instead. If the store refuses effect because of a guard,
// park looks for the reason.
func (x *Executor[TTx]) park(ctx context.Context, e *partition.Entry, end rollbackFunc,
	effect store.Effect, r Result) Result {
	if e.Parked == nil && effect.Park.Dead == nil && !x.o.Room() {
		_, _ = end(ctx)
		return Result{Entry: e, What: decide.Full, Err: fmt.Errorf("%w: %w", ErrFull, Cause(r.Err))}
	}
	// The time limit of the handler may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.o.Wait+5*time.Second)
	defer cancel()
	applied, err := end(ctx, effect)
	switch {
	case errors.Is(err, store.ErrLent) && !errors.Is(r.Err, store.ErrLent): // the handler ended it
		return x.fail(ctx, e, x.db.Apply, endedByHandler(e, err))
	case err != nil:
		return x.deadAfterRefusals(ctx, e, effect.Park, x.parkFailed(e, err, r.Err))
	case !applied[0] && e.Parked != nil:
		return Result{Entry: e, What: decide.Stale}
	case !applied[0]:
		return x.refused(ctx, e, effect.Park, r.Err)
	}
	return r
}

// ErrKeyFull is the failure of a dead letter of the kind key_full.
var ErrKeyFull = errors.New("inbox: no more messages of its key may be parked (Options.Limits.KeyRows, KeyBytes): " +
	"repair the first message of the key, then redrive this letter")

// refused ends an attempt after the store refused effect because of a guard. Either another process finished
// or parked the message, or its key is full. A message of a full key becomes a dead letter, which the limits
// of the key do not count. Otherwise all other keys of its partition would wait for it.
func (x *Executor[TTx]) refused(ctx context.Context, e *partition.Entry, p *store.Park, err error) Result {
	if r, is := x.endKept(ctx, e, x.printOrZero(e)); is {
		return r // its intake may fail in each attempt, and never find the parked row
	}
	full := Result{Entry: e, What: decide.Full, Err: fmt.Errorf("%w: %w", ErrFull, Cause(err))}
	if p.Dead != nil || !x.o.DeadRoom() {
		return full
	}
	r := x.deadUnparked(ctx, e, form{park: *p, announced: true}, failure.KindKeyFull,
		fmt.Errorf("%w: %w", ErrKeyFull, Cause(err)))
	if r.What == decide.Stale {
		return full // another process finished it; the next attempt finds the mark
	}
	return x.deadAfterRefusals(ctx, e, p, r)
}

// deadAfterRefusals returns r, unless the store has refused to park e many times over minutes. In that case
// it makes e a dead letter, so that its partition continues. It tries several forms of the dead letter until
// the store accepts one.
func (x *Executor[TTx]) deadAfterRefusals(ctx context.Context, e *partition.Entry, p *store.Park,
	r Result) Result {
	if r.What != decide.NotParked || !e.Refused.Last(x.o.Now()) {
		return r
	}
	forms := []form{{park: *p, announced: true}, {park: *p}}
	if e.Parked == nil {
		forms = append(forms, form{park: bare(*p)})
	}
	err := fmt.Errorf("%w: %s", errUnkept, shortlog.Text(r.Err.Error(), mostCause))
	for _, f := range forms {
		if out := x.deadUnparked(ctx, e, f, failure.KindUnkept, err); out.What != decide.NotParked {
			return out
		}
	}
	return r
}

var errUnkept = errors.New("inbox: the store refused repeatedly to park it, for an unknown reason: " +
	"repair the store, then redrive this letter")

const mostCause = 1 << 10 // bytes of the cause in an error

// form is one form of the dead letter of a message that the store refused to park.
type form struct {
	park      store.Park
	announced bool // with the message for Options.Dead.Topic
}

// bare returns p without payload and headers. The fault has the size and the hash of the payload.
func bare(p store.Park) store.Park {
	m := &p.Message
	if failure.IsComplete(p.Fault) {
		p.Fault = fmt.Sprintf("%sits payload has %d bytes, SHA-256 %x", failure.FaultUnkept, len(m.Data),
			sha256.Sum256(m.Data))
	}
	m.Data, m.Headers = nil, nil
	return p
}

// deadUnparked makes a dead letter of a message that the store refused to park.
func (x *Executor[TTx]) deadUnparked(ctx context.Context, e *partition.Entry, f form, kind string,
	err error) Result {
	p, now := f.park, x.o.Now()
	x.recordFailure(&p, err.Error(), now, false)
	p.MostRows, p.MostBytes, p.Due = 0, 0, 0
	p.Dead = x.newDeath(kind, failure.Class(kind), e, err, now)
	effect := store.Effect{Park: &p}
	if f.announced {
		effect.Rows = x.o.Announce.Rows(ctx, &p.Parked)
	}
	applied, failed := x.db.Apply(ctx, effect)
	switch {
	case failed != nil:
		return x.parkFailed(e, failed, err)
	case !applied[0]:
		return Result{Entry: e, What: decide.Stale}
	}
	return Result{Entry: e, What: decide.Dead, Attempts: p.Attempts, Unparked: true, Err: err}
}

// parkFailed returns the result of the message e after err, an error of the store when it parked e. The
// parameter cause is the reason to park e.
func (x *Executor[TTx]) parkFailed(e *partition.Entry, err, cause error) Result {
	r := Result{Entry: e, What: decide.Outage, Err: fmt.Errorf("park %s: %w", e.Name(), err)}
	switch {
	case store.Incurable(err) || errors.Is(err, store.ErrLent):
		r.What = decide.Broken
	case !x.Unavailable(err) && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, context.Canceled):
		r.What, r.Err = decide.NotParked, fmt.Errorf("%w; %w", r.Err, Cause(cause))
	}
	return r
}

// ErrFull is the reason why a partition pauses: no more messages may be parked for the consumer.
var ErrFull = errors.New("inbox: no more messages may be parked")

// Cause returns the reason to park a message: err, or if that is nil, that other messages of its key are
// parked.
func Cause(err error) error {
	if err == nil {
		return errors.New("other messages of its key are parked")
	}
	return err
}

// releaseClaim makes a claimed message due soon, before its lease ends. The delay grows with each release. If
// the store fails, the message is due when the lease ends.
func (x *Executor[TTx]) releaseClaim(ctx context.Context, e *partition.Entry,
	end rollbackFunc) (due time.Duration) {
	if e.Parked == nil {
		_, _ = end(ctx)
		return 0
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	k := x.NewPark(e)
	k.Due = x.o.Retry.WaitOutage(e.Again + 1)
	_, _ = end(ctx, store.Effect{Park: k})
	return k.Due
}

// finishParked returns the effect that deletes the parked row of a claimed message. It returns nil if e was
// not claimed.
func (x *Executor[TTx]) finishParked(e *partition.Entry) *store.Finish {
	if e.Parked == nil {
		return nil
	}
	attempts := e.Parked.Attempts
	return &store.Finish{Consumer: x.o.Group, Identity: e.Identity(), Attempts: &attempts,
		WasCall: e.CallKey(), Place: e.Parked.Place}
}

// alreadyKept ends a redelivery of a message that is parked or a dead letter. If another message with the
// same identity is stored, e is a conflict.
func (x *Executor[TTx]) alreadyKept(ctx context.Context, e *partition.Entry, unit store.Unit[TTx],
	print int64) Result {
	_, _ = unit.Rollback(ctx)
	if r, is := x.endKept(ctx, e, print); is {
		return r
	}
	return Result{Entry: e, What: decide.Again} // another process finished it meanwhile
}

// endKept ends e if the database has a parked message or a dead letter with the identity of e. It returns
// false if there is none.
func (x *Executor[TTx]) endKept(ctx context.Context, e *partition.Entry, print int64) (r Result, is bool) {
	id := e.Identity()
	kept, err := store.ListParked(ctx, x.db, store.ParkedQuery{Consumer: x.o.Group, Identity: &id, Limit: 1})
	if err != nil {
		return x.storeFailed(ctx, e, fmt.Errorf("look up the parked message %s: %w", id.ID, err)), true
	}
	if len(kept) == 0 {
		return r, false
	}
	was := &partition.Entry{Given: id}
	was.Message = kept[0].Message
	if p := x.printOrZero(was); p == 0 || print == 0 || p == print || !failure.IsComplete(kept[0].Fault) {
		// This process may have parked the message and received no answer from the store.
		return Result{Entry: e, What: decide.Duplicate, Kept: true}, true
	}
	_, err = x.db.Apply(ctx, store.Effect{Quarantine: newQuarantined(x.o.Group, e, store.Conflict, print)})
	if err != nil {
		return x.storeFailed(ctx, e, fmt.Errorf("put %s into quarantine: %w", id.ID, err)), true
	}
	return Result{Entry: e, What: decide.Conflict}, true
}
