// Package redislock holds leases in Redis in front of long work outside the database, so that two processes
// seldom do the same work at once. A lease guards nothing: a process that is paused past its end, or a
// failover of Redis, lets two of them work. What guards is the token of package lock, which the database
// checks in the commit. Do does both.
package redislock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/rediscmd"
)

// Options of a Locker. The zero value works.
type Options struct {
	// TTL is how long a lease lasts unless it is renewed, which is tried three times as often. A process that
	// dies holds it for as long. Default 30 s, at least 100 ms.
	TTL time.Duration
	// Wait is how long Acquire tries while others have a lease, then ErrTaken. Default 5 s; below 0: it tries
	// once.
	Wait time.Duration
	// Timeout of one call of Redis. Default 250 ms, at most a sixth of TTL.
	Timeout time.Duration
	// Prefix of the keys. Default "skald:lease:".
	Prefix string
	Logger *slog.Logger // default slog.Default()
}

var (
	// ErrTaken: another one has the lease.
	ErrTaken = errors.New("redislock: another one has the lease")
	// ErrLost ends the context of a lease that ran out, or that somebody else has.
	ErrLost = errors.New("redislock: the lease is lost")
	// ErrAway: Redis does not answer; whether the lease is free is not known.
	ErrAway = errors.New("redislock: Redis does not answer")
)

// Locker gives leases. It is safe for concurrent use. One goroutine renews all of its leases, and ends with
// the last of them.
type Locker struct {
	redis *rediscmd.Guard
	o     Options

	mu       sync.Mutex
	held     map[*Lease]bool
	renewing bool
	wake     chan struct{}  // ends a pause of the goroutine that renews
	say      backoff.Rarely // that Do works without a lease
}

// New gives leases in what c talks to. An error names an option that cannot be.
func New(c rediscmd.Client, o *Options) (*Locker, error) {
	var d Options
	if o != nil {
		d = *o
	}
	d.TTL, d.Wait, d.Prefix = cmp.Or(d.TTL, 30*time.Second), cmp.Or(d.Wait, 5*time.Second),
		cmp.Or(d.Prefix, "skald:lease:")
	if d.TTL < 100*time.Millisecond {
		return nil, fmt.Errorf("redislock.Options.TTL is %v: a renewal needs its time, give at least 100ms",
			d.TTL)
	}
	d.Timeout = min(cmp.Or(d.Timeout, 250*time.Millisecond), d.TTL/6)
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	return &Locker{redis: rediscmd.NewGuard(c, &rediscmd.GuardOptions{Timeout: d.Timeout, Logger: d.Logger}),
		o:    d,
		held: map[*Lease]bool{}, wake: make(chan struct{}, 1),
		say: backoff.Rarely{First: 20 * time.Second, Most: 10 * time.Minute}}, nil
}

// Lease is held until Release, or until it is lost.
type Lease struct {
	by     *Locker
	keys   []string // sorted
	token  string   // random: nobody else's, and of one try
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Of the locker's lock.
	until clock // it is ours for sure until then
	over  bool  // lost or released
	timer *time.Timer
}

// Context ends with ErrLost as its cause (context.Cause) when the lease is lost, with Release, and with the
// context of Acquire. A paused process learns of it when it goes on, not before.
func (l *Lease) Context() context.Context { return l.ctx }

// Acquire takes the leases of all keys, or of none. Of two callers with common keys one gets them, whatever
// the order of the keys. Errors: ErrTaken, ErrAway, or that of ctx.
func (k *Locker) Acquire(ctx context.Context, keys ...string) (*Lease, error) {
	if len(keys) == 0 || slices.Contains(keys, "") {
		return nil, errors.New("redislock: give at least one key, and none that is empty")
	}
	l := &Lease{by: k, keys: slices.Compact(slices.Sorted(slices.Values(keys)))}
	end := time.Now().Add(k.o.Wait)
	for n := 1; ; n++ {
		err := k.try(ctx, l)
		if err == nil {
			return l, nil
		}
		wait := backoff.After(n, 5*time.Millisecond, 250*time.Millisecond)
		if !errors.Is(err, ErrTaken) || time.Now().Add(wait).After(end) {
			return nil, fmt.Errorf("%w: %q", err, l.keys)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// try asks for all keys in one call, in their order: the first key decides between two callers. What was had
// of them is given back where one is taken, or where it is not known what was had. Each try has a token of
// its own, so that a release of an earlier one does not find it.
func (k *Locker) try(ctx context.Context, l *Lease) error {
	l.token = rand.Text()
	asked := now()
	replies, err := k.redis.Take(ctx, k.each(l.keys, l.token, k.take), k.each(l.keys, l.token, k.drop),
		k.o.TTL)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	var had []string
	taken := false
	for i, r := range replies {
		switch {
		case r.Err != nil:
			err = fmt.Errorf("%w: %w", ErrAway, r.Err)
		case r.Text == "0":
			taken = true
		case r.Text == "1":
			had = append(had, l.keys[i])
		default:
			err = fmt.Errorf("%w: it answers %.40q to a request for a lease", ErrAway, r.Text)
		}
	}
	if taken {
		err = ErrTaken
	}
	if err == nil {
		k.hold(ctx, l, asked.add(k.o.TTL))
	} else if len(had) > 0 {
		_ = k.giveBack(context.WithoutCancel(ctx), had, l.token) // else it is tried again, or ends by itself
	}
	return err
}

// giveBack releases keys in Redis. Where that fails it is tried again in the background.
func (k *Locker) giveBack(ctx context.Context, keys []string, token string) error {
	commands := k.each(keys, token, k.drop)
	replies, err := k.redis.Insist(ctx, commands)
	for _, r := range replies {
		err = cmp.Or(err, r.Err)
	}
	if err != nil {
		k.redis.Undo(commands, k.o.TTL)
	}
	return err
}

func (k *Locker) take(key, token string) []string  { return rediscmd.Hold(key, token, k.o.TTL) }
func (k *Locker) renew(key, token string) []string { return rediscmd.Prolong(key, token, k.o.TTL) }
func (k *Locker) drop(key, token string) []string  { return rediscmd.Drop(key, token) }

// each is a command for each key.
func (k *Locker) each(keys []string, token string, command func(key, token string) []string) [][]string {
	commands := make([][]string, len(keys))
	for i, key := range keys {
		commands[i] = command(k.o.Prefix+key, token)
	}
	return commands
}

func (k *Locker) hold(ctx context.Context, l *Lease, until clock) {
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.until = until
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[l] = true
	l.timer = time.AfterFunc(until.left(), l.ran)
	if !k.renewing {
		k.renewing = true
		go k.renewAll()
	}
}

// ran ends l when its time is over, also while a renewal hangs.
func (l *Lease) ran() {
	k := l.by
	k.mu.Lock()
	left := l.until.left()
	if !l.over && left > 0 {
		l.timer.Reset(left)
	}
	k.mu.Unlock()
	if left <= 0 {
		k.lose(l)
	}
}

// Release gives the lease back, unless it is lost. Behind an error this is tried again in the background, and
// the lease stays until then, or until it ends by itself.
func (l *Lease) Release(ctx context.Context) error {
	if !l.by.end(l, context.Canceled) {
		return nil
	}
	if err := l.by.giveBack(ctx, l.keys, l.token); err != nil {
		return fmt.Errorf("%w: release %q, which is tried again, or ends by itself within %v: %w", ErrAway,
			l.keys, l.by.o.TTL, err)
	}
	return nil
}

// end is done with a lease; false: it was before.
func (k *Locker) end(l *Lease, why error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.over {
		return false
	}
	l.over = true
	delete(k.held, l)
	l.timer.Stop()
	l.cancel(why)
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return true
}
