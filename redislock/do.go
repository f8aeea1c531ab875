package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald/lock"
	"github.com/skald-go/skald/once"
)

// Do runs long work for entities outside of a transaction, and writes its result once.
//
// Do acquires the leases of the entities, and then takes their tokens from the database. It calls the
// function work with the context of the lease. Then it commits the writes of the function store together
// with the mark of the key, but only if no other commit has locked an entity since. Otherwise it returns a
// *lock.OvertakenError, and writes nothing. So if two processes work at the same time, only one result is
// written. The external effects of work may happen twice, so they must tolerate repetition.
//
// If Redis does not answer, Do works without a lease. If the lease is lost, the context of work ends, and
// Do returns the error of work. If the key was done before, Do returns the stored result and does not call
// work. It then returns replayed=true.
func Do[TTx, W, R any](ctx context.Context, k *Locker, db once.Store[TTx], w lock.Work,
	work func(ctx context.Context, t lock.Tokens) (W, error),
	store func(ctx context.Context, tx TTx, done W) (R, error)) (result R, replayed bool, err error) {
	names := make([]string, len(w.Entities))
	for i, e := range w.Entities {
		names[i] = e.Space + "\x00" + e.Key
	}
	lease, err := k.Acquire(ctx, names...)
	under := ctx
	switch {
	case err == nil:
		under = lease.Context()
		k.answers()
		defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }() // if this fails, the lease expires
	case errors.Is(err, ErrUnavailable):
		k.logNoLease(ctx, err)
	default:
		return result, false, err
	}
	if result, done, err := storedResult[TTx, R](under, db, w); done || err != nil {
		return result, done, err
	}
	tokens, err := lock.Take(under, db, w.Entities...)
	if err != nil {
		return result, false, err
	}
	done, err := work(under, tokens)
	if err != nil {
		return result, false, err
	}
	w.Held = tokens
	return lock.Once(ctx, db, w,
		func(ctx context.Context, tx TTx, _ lock.Tokens) (R, error) { return store(ctx, tx, done) })
}

// storedResult returns the stored result if the work was done before. It then returns done=true.
func storedResult[TTx, R any](ctx context.Context, db once.Store[TTx],
	w lock.Work) (result R, done bool, err error) {
	q := w.Request()
	run, err := once.Begin(ctx, db, q)
	if err != nil {
		return result, false, err
	}
	a, done := run.Answer()
	if !done {
		run.Rollback(context.WithoutCancel(ctx)) // nothing was written
		return result, false, nil
	}
	result, err = once.Replay[R](q, a)
	return result, err == nil, err
}

// logNoLease logs at a limited rate that work runs without a lease.
func (k *Locker) logNoLease(ctx context.Context, err error) {
	k.mu.Lock()
	due := k.say.Due(time.Now())
	k.mu.Unlock()
	if due {
		k.o.Logger.WarnContext(ctx, "redislock: working without a lease; the database's token guards",
			"error", err)
	}
}

func (k *Locker) answers() {
	k.mu.Lock()
	k.say.Over()
	k.mu.Unlock()
}
