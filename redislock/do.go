package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald/lock"
	"github.com/skald-go/skald/once"
)

// Do runs long work for entities outside of any transaction, and then writes its result once. It takes the
// leases of the entities, and then their tokens from the database. It runs work with the context of the
// lease. It commits write together with the mark of the key, but only if no other commit had an entity
// since. Otherwise it returns a *lock.OvertakenError, and nothing is written. So if two processes work at
// once, only one result is written. The external effects of work may happen twice, and must tolerate that.
//
// If Redis does not answer, Do works without a lease. If a lease is lost, the context of work ends, and Do
// returns the error of work. If the key was done before, Do does not run work, and returns the stored
// result.
func Do[TTx, W, R any](ctx context.Context, k *Locker, db once.Store[TTx], w lock.Work,
	work func(ctx context.Context, t lock.Tokens) (W, error),
	write func(ctx context.Context, tx TTx, done W) (R, error)) (result R, replayed bool, err error) {
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
		defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }() // after an error the lease expires
	case errors.Is(err, ErrUnavailable):
		k.away(ctx, err)
	default:
		return result, false, err
	}
	if result, done, err := before[TTx, R](under, db, w); done || err != nil {
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
		func(ctx context.Context, tx TTx, _ lock.Tokens) (R, error) { return write(ctx, tx, done) })
}

// before returns the stored result of work that was done.
func before[TTx, R any](ctx context.Context, db once.Store[TTx],
	w lock.Work) (result R, done bool, err error) {
	q := w.Request()
	run, err := once.Begin(ctx, db, q)
	if err != nil {
		return result, false, err
	}
	a, done := run.Answer()
	if !done {
		run.Rollback(context.WithoutCancel(ctx)) // it only read
		return result, false, nil
	}
	result, err = once.Replay[R](q, a)
	return result, err == nil, err
}

// away logs, at a limited rate, that work runs without a lease.
func (k *Locker) away(ctx context.Context, err error) {
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
