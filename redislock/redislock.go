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
	"strconv"
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

// A Locker gives leases. It is safe for concurrent use. One goroutine renews all of its leases, and ends with
// the last of them.
type Locker struct {
	redis rediscmd.Client
	o     Options
	ttl   string // in milliseconds

	mu       sync.Mutex
	held     map[*Lease]bool
	renewing bool
	wake     chan struct{} // ends a pause of the goroutine that renews
}

// New gives leases in what c talks to. An error names an option that cannot be.
func New(c rediscmd.Client, o *Options) (*Locker, error) {
	var d Options
	if o != nil {
		d = *o
	}
	d.TTL, d.Wait, d.Prefix = cmp.Or(d.TTL, 30*time.Second), cmp.Or(d.Wait, 5*time.Second), cmp.Or(d.Prefix, "skald:lease:")
	if d.TTL < 100*time.Millisecond {
		return nil, fmt.Errorf("redislock.Options.TTL is %v: a renewal needs its time, give at least 100ms", d.TTL)
	}
	d.Timeout = min(cmp.Or(d.Timeout, 250*time.Millisecond), d.TTL/6)
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	// renewals go on
	guard := rediscmd.NewGuard(c, &rediscmd.GuardOptions{Timeout: d.Timeout, Rest: time.Nanosecond, Logger: d.Logger})
	return &Locker{redis: guard, o: d, ttl: strconv.FormatInt(d.TTL.Milliseconds(), 10), held: map[*Lease]bool{}, wake: make(chan struct{}, 1)}, nil
}

// A Lease is held until Release, or until it is lost.
type Lease struct {
	by     *Locker
	keys   []string // sorted
	token  string   // random: nobody else's
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Of the locker's lock.
	until clock // it is ours for sure until then
	over  bool  // lost or released
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
	l := &Lease{by: k, keys: slices.Compact(slices.Sorted(slices.Values(keys))), token: rand.Text()}
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
// of them is given back where one is taken, or where it is not known what was had.
func (k *Locker) try(ctx context.Context, l *Lease) error {
	commands := make([][]string, len(l.keys))
	for i, key := range l.keys {
		commands[i] = []string{"SET", k.o.Prefix + key, l.token, "NX", "PX", k.ttl}
	}
	asked := now()
	replies, err := k.redis.Do(ctx, commands)
	for _, r := range replies {
		if r.Nil && err == nil {
			err = ErrTaken
		} else if r.Err != nil && !errors.Is(err, ErrAway) {
			err = fmt.Errorf("%w: %w", ErrAway, r.Err)
		}
	}
	switch {
	case err == nil:
		k.hold(ctx, l, asked.add(k.o.TTL))
		return nil
	case !errors.Is(err, ErrTaken) || len(l.keys) > 1:
		_, _ = k.redis.Do(context.WithoutCancel(ctx), k.each(l, release)) // else it ends by itself
	}
	if !errors.Is(err, ErrTaken) && !errors.Is(err, ErrAway) && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrAway, err)
	}
	return err
}

// Each script changes a key only where it has our token.
const (
	release = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`
	renew   = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end`
)

func (k *Locker) each(l *Lease, script string) [][]string {
	commands := make([][]string, len(l.keys))
	for i, key := range l.keys {
		commands[i] = []string{"EVAL", script, "1", k.o.Prefix + key, l.token, k.ttl}
	}
	return commands
}

func (k *Locker) hold(ctx context.Context, l *Lease, until clock) {
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.until = until
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[l] = true
	if !k.renewing {
		k.renewing = true
		go k.renew()
	}
}

// Release gives the lease back, unless it is lost. An error says that it stays until it ends by itself.
func (l *Lease) Release(ctx context.Context) error {
	if !l.by.end(l, context.Canceled) {
		return nil
	}
	if _, err := l.by.redis.Do(ctx, l.by.each(l, release)); err != nil {
		return fmt.Errorf("%w: release %q, which ends by itself within %v: %w", ErrAway, l.keys, l.by.o.TTL, err)
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
	l.cancel(why)
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return true
}
