// Package redislock manages leases in Redis for long work outside the database, so that two processes rarely
// do the same work at the same time. A lease is no guarantee. Two processes may work at the same time after a
// failover of Redis, or if one process is paused past the end of its lease. The guarantee comes from the
// token of package lock, which the database checks at commit. Do uses both.
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

// Options configures a Locker. The zero value works.
type Options struct {
	// TTL is the duration of a lease. The locker renews a lease after each third of TTL. If a process dies,
	// its leases remain until they expire. Default 30 s, at least 100 ms.
	TTL time.Duration
	// Wait limits the time for which Acquire retries while another process has a lease. After it, Acquire
	// returns ErrTaken. Default 5 s. A negative value means one try.
	Wait time.Duration
	// Timeout limits one call to Redis. Default 250 ms, at most a sixth of TTL.
	Timeout time.Duration
	// Prefix is the beginning of all keys in Redis. Default "skald:lease:".
	Prefix string
	Logger *slog.Logger // default slog.Default()
}

var (
	// ErrTaken is returned if another holder has the lease.
	ErrTaken = errors.New("redislock: another holder has the lease")
	// ErrLost is the cause of the end of Lease.Context if the lease has expired, or if another holder has it.
	ErrLost = errors.New("redislock: the lease is lost")
	// ErrUnavailable is returned if Redis does not answer. Then the state of the lease is unknown.
	ErrUnavailable = errors.New("redislock: Redis does not answer")
)

// Locker acquires leases. It is safe for concurrent use. One goroutine renews all leases; it ends with the
// last lease.
type Locker struct {
	redis *rediscmd.Guard
	o     Options

	mu       sync.Mutex
	held     map[*Lease]bool
	renewing bool
	wake     chan struct{}    // wakes the goroutine that renews
	say      backoff.LogLimit // limits the log lines about work without a lease
}

// New returns a Locker that uses c. It returns an error if an option is invalid.
func New(c rediscmd.Client, o *Options) (*Locker, error) {
	var d Options
	if o != nil {
		d = *o
	}
	d.TTL, d.Wait, d.Prefix = cmp.Or(d.TTL, 30*time.Second), cmp.Or(d.Wait, 5*time.Second),
		cmp.Or(d.Prefix, "skald:lease:")
	if d.TTL < 100*time.Millisecond {
		return nil, fmt.Errorf("redislock.Options.TTL is %v: at least 100ms are needed for renewals",
			d.TTL)
	}
	d.Timeout = min(cmp.Or(d.Timeout, 250*time.Millisecond), d.TTL/6)
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	return &Locker{redis: rediscmd.NewGuard(c, &rediscmd.GuardOptions{Timeout: d.Timeout, Logger: d.Logger}),
		o:    d,
		held: map[*Lease]bool{}, wake: make(chan struct{}, 1),
		say: backoff.LogLimit{First: 20 * time.Second, Most: 10 * time.Minute}}, nil
}

// Lease is one lease of one or more keys. It lasts until Release, or until it is lost.
type Lease struct {
	by     *Locker
	keys   []string // sorted
	token  string   // random, new for each try
	ctx    context.Context
	cancel context.CancelCauseFunc

	// until and the fields below are guarded by the locker's mu.
	until clock // the lease certainly lasts until then
	over  bool  // the lease is lost or released
	timer *time.Timer
}

// Context returns a context that ends when the lease is lost; its cause is then ErrLost. It also ends with
// Release, and with the context of Acquire. If the process is paused, the context ends only after the pause.
func (l *Lease) Context() context.Context { return l.ctx }

// Acquire acquires the lease of all keys, or of none. If two callers have common keys, one of them succeeds,
// in any order of the keys. It returns ErrTaken, ErrUnavailable, or the error of ctx.
func (k *Locker) Acquire(ctx context.Context, keys ...string) (*Lease, error) {
	if len(keys) == 0 || slices.Contains(keys, "") {
		return nil, errors.New("redislock: give at least one key, and no empty key")
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

// try requests all keys in one call, in sorted order, so that the first common key decides between two
// callers. If a key is taken, or after an error, try releases the keys that it got. Each try has its own
// token, so that a late release of an earlier try does not affect it.
func (k *Locker) try(ctx context.Context, l *Lease) error {
	l.token = rand.Text()
	asked := now()
	replies, err := k.redis.Take(ctx, k.perKey(l.keys, l.token, k.take), k.perKey(l.keys, l.token, k.drop),
		k.o.TTL)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var had []string
	taken := false
	for i, r := range replies {
		switch {
		case r.Err != nil:
			err = fmt.Errorf("%w: %w", ErrUnavailable, r.Err)
		case r.Text == "0":
			taken = true
		case r.Text == "1":
			had = append(had, l.keys[i])
		default:
			err = fmt.Errorf("%w: it answers %.40q to a request for a lease", ErrUnavailable, r.Text)
		}
	}
	if taken {
		err = ErrTaken
	}
	if err == nil {
		k.hold(ctx, l, asked.add(k.o.TTL))
	} else if len(had) > 0 {
		_ = k.giveBack(context.WithoutCancel(ctx), had, l.token) // after a failure it is retried, or expires
	}
	return err
}

// giveBack releases keys in Redis. If this fails, giveBack retries it in the background.
func (k *Locker) giveBack(ctx context.Context, keys []string, token string) error {
	commands := k.perKey(keys, token, k.drop)
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

// perKey returns one command for each key.
func (k *Locker) perKey(keys []string, token string, command func(key, token string) []string) [][]string {
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
	l.timer = time.AfterFunc(until.remaining(), l.endExpired)
	if !k.renewing {
		k.renewing = true
		go k.renewAll()
	}
}

// endExpired ends l when it has expired, even while a renewal hangs.
func (l *Lease) endExpired() {
	k := l.by
	k.mu.Lock()
	left := l.until.remaining()
	if !l.over && left > 0 {
		l.timer.Reset(left)
	}
	k.mu.Unlock()
	if left <= 0 {
		k.lose(l)
	}
}

// Release ends the lease. It does nothing if the lease is already lost or released. If Redis does not answer,
// Release returns an error and retries in the background. The lease then lasts until the retry succeeds, or
// until it expires.
func (l *Lease) Release(ctx context.Context) error {
	if !l.by.end(l, context.Canceled) {
		return nil
	}
	if err := l.by.giveBack(ctx, l.keys, l.token); err != nil {
		return fmt.Errorf("%w: release %q, which is retried, or expires within %v: %w", ErrUnavailable,
			l.keys, l.by.o.TTL, err)
	}
	return nil
}

// end ends a lease in this process. It returns false if the lease had ended before.
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
