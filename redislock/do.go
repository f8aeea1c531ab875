package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald/lock"
	"github.com/skald-go/skald/once"
)

// Do does long work for entities outside of any transaction, then writes its result once. It takes the leases
// of the entities, then their tokens from the database; runs work under the lease's context; and commits
// write with the mark of the key, only if nobody had an entity since: else a *lock.OvertakenError, with
// nothing written. So of two that work at once one stands, and what work itself did outside has to bear being
// done twice.
//
// Where Redis does not answer it goes on without a lease. A lease that was lost ends work's context, and Do
// returns work's error. Where the key was done before, work is not run, and the stored result is returned.
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
		defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }() // else it ends by itself
	case errors.Is(err, ErrAway):
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

// before is the stored result of work that was done.
func before[TTx, R any](ctx context.Context, db once.Store[TTx],
	w lock.Work) (result R, done bool, err error) {
	q := w.Request()
	run, err := once.Begin(ctx, db, q)
	if err != nil {
		return result, false, err
	}
	a, done := run.Answer()
	if !done {
		run.Rollback(context.WithoutCancel(ctx)) // it only looked
		return result, false, nil
	}
	result, err = once.Replay[R](q, a)
	return result, err == nil, err
}

// away says at times that work goes on without a lease.
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
