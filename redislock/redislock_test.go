package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/lock"
	"github.com/skald-go/skald/rediscmd"
	"github.com/skald-go/skald/rediscmd/goredis"
	"github.com/skald-go/skald/redislock"
	"github.com/skald-go/skald/store/memstore"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func mini(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	s := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return s, c
}

// locker returns a Locker with leases of an hour, and a timeout for slow machines.
func locker(t *testing.T, c rediscmd.Client, o redislock.Options) *redislock.Locker {
	t.Helper()
	if o.TTL == 0 {
		o.TTL = time.Hour
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	o.Logger = quiet()
	k, err := redislock.New(c, &o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func lost(t *testing.T, l *redislock.Lease) {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(5 * time.Minute):
		t.Fatal("the lease is not lost")
	}
	if err := context.Cause(l.Context()); !errors.Is(err, redislock.ErrLost) {
		t.Errorf("its context ended with %v", err)
	}
}

// TestLeases checks on miniredis and on a real server: there is one holder at a time, a caller gets all
// keys or none, and a release does not affect the lease of another holder.
func TestLeases(t *testing.T) {
	t.Run("miniredis", func(t *testing.T) {
		_, c := mini(t)
		leases(t, c)
	})
	t.Run("real", func(t *testing.T) {
		o, err := redis.ParseURL(need.Redis(t))
		if err != nil {
			t.Fatal(err)
		}
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		leases(t, c)
	})
}

func leases(t *testing.T, c *redis.Client) {
	prefix := fmt.Sprintf("skald:test:%d:", time.Now().UnixNano())
	a := locker(t, goredis.New(c), redislock.Options{Prefix: prefix})
	b := locker(t, goredis.New(c), redislock.Options{Prefix: prefix, Wait: -1})
	ctx := t.Context()
	first, err := a.Acquire(ctx, "x", "y", "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(ctx, "w", "y"); !errors.Is(err, redislock.ErrTaken) {
		t.Errorf("one of two is taken: %v", err)
	}
	left, _ := c.Keys(ctx, prefix+"*").Result()
	if slices.Sort(left); fmt.Sprint(left) != fmt.Sprint([]string{prefix + "x", prefix + "y"}) {
		t.Errorf("a caller that got only a part keeps %v", left)
	}
	// The lease of x expires, and another holder gets it: the first one's release does not affect it.
	if err := c.Set(ctx, prefix+"x", "another's", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Release(ctx), first.Release(ctx)); err != nil {
		t.Error(err)
	}
	if v, _ := c.Get(ctx, prefix+"x").Result(); v != "another's" {
		t.Errorf("a release affected the lease of another holder: %q", v)
	}
	if first.Context().Err() == nil {
		t.Error("the context did not end with the release")
	}
	second, err := b.Acquire(ctx, "y")
	if err != nil {
		t.Fatal(err)
	}
	if ttl := c.PTTL(ctx, prefix+"y").Val(); ttl < time.Minute || ttl > time.Hour {
		t.Errorf("it lasts for %v", ttl)
	}
	if err := errors.Join(second.Release(ctx), c.Del(ctx, prefix+"x").Err()); err != nil {
		t.Error(err)
	}
	if n := c.Exists(ctx, prefix+"y").Val(); n != 0 {
		t.Error("the key remains after a release")
	}
	for _, bad := range [][]string{nil, {"x", ""}} {
		if _, err := a.Acquire(ctx, bad...); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestManyWantTheSame: callers with the same keys in different orders all get them, but never two at once.
func TestManyWantTheSame(t *testing.T) {
	_, c := mini(t)
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		k := locker(t, goredis.New(c), redislock.Options{Wait: 5 * time.Minute})
		keys := []string{"a", "b", "c"}
		if i%2 == 1 {
			slices.Reverse(keys)
		}
		wg.Go(func() {
			l, err := k.Acquire(t.Context(), keys...)
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			inside.Add(-1)
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	if wg.Wait(); most.Load() != 1 {
		t.Errorf("%d at once", most.Load())
	}
}

// TestLeaseIsRenewedOrLost: a lease is renewed until its release. It is lost if Redis loses it, has another
// holder, or is gone.
func TestLeaseIsRenewedOrLost(t *testing.T) {
	s, c := mini(t)
	k := locker(t, goredis.New(c), redislock.Options{TTL: 300 * time.Millisecond})
	held, err := k.Acquire(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 { // the clock of miniredis does not move, so only a renewal raises the TTL
		s.FastForward(150 * time.Millisecond)
		for end := time.Now().Add(time.Minute); s.TTL("skald:lease:held") <= 150*time.Millisecond &&
			held.Context().Err() == nil; {
			if time.Now().After(end) {
				t.Fatal("it is not renewed")
			}
			time.Sleep(time.Millisecond)
		}
	}
	if held.Context().Err() != nil {
		t.Skip("the machine stood still for longer than the lease lasts")
	}
	s.FlushAll()
	lost(t, held)
	if held, err = k.Acquire(t.Context(), "held"); err != nil {
		t.Fatal(err)
	}
	if err := s.Set("skald:lease:held", "another's"); err != nil {
		t.Fatal(err)
	}
	lost(t, held)
	if err := held.Release(t.Context()); err != nil {
		t.Errorf("release of a lost lease: %v", err)
	}
	s.FlushAll()
	if held, err = k.Acquire(t.Context(), "held"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	lost(t, held)
	if _, err := k.Acquire(t.Context(), "held"); !errors.Is(err, redislock.ErrUnavailable) {
		t.Errorf("with Redis gone: %v", err)
	}
}

// TestLeaseEndsWithItsCaller: the context of a lease ends with its caller's, and the lease can still be
// released.
func TestLeaseEndsWithItsCaller(t *testing.T) {
	s, c := mini(t)
	k := locker(t, goredis.New(c), redislock.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	l, err := k.Acquire(ctx, "held")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-l.Context().Done()
	if err := l.Release(t.Context()); err != nil || s.Exists("skald:lease:held") {
		t.Errorf("%v, the key is there: %v", err, s.Exists("skald:lease:held"))
	}
}

func order(id string) lock.Work {
	return lock.Work{Scope: "export", Key: id, Entities: []lock.Entity{{Space: "order", Key: "7"}}}
}

// note is an effect; a second one is visible.
func note(_ context.Context, tx *memstore.Tx, what string) (string, error) {
	old, _ := tx.Get("done")
	return what, tx.Put("done", old+what)
}

// TestDoStandsOnce: if two processes work at once, because Redis lost the first lease, one result is
// written and the other process gets an error.
func TestDoStandsOnce(t *testing.T) {
	s, c := mini(t)
	db := memstore.New(nil)
	k := locker(t, goredis.New(c), redislock.Options{})
	var rival error
	got, _, err := redislock.Do(t.Context(), k, db, order("a"),
		func(ctx context.Context, ts lock.Tokens) (string, error) {
			if ts.Of("order", "7") != 1 {
				t.Errorf("tokens %v", ts)
			}
			s.FlushAll() // a failover to an empty replica
			_, _, rival = redislock.Do(ctx, k, db, order("b"),
				func(context.Context, lock.Tokens) (string, error) { return "B", nil }, note)
			return "A", nil
		}, note)
	var overtaken *lock.OvertakenError
	if !errors.As(err, &overtaken) || overtaken.Version != 1 || overtaken.Found != 3 || got != "" {
		t.Errorf("the first: %q, %v", got, err)
	}
	if rival != nil || db.User()["done"] != "B" {
		t.Errorf("the rival: %v, done %q", rival, db.User()["done"])
	}
	for i := range 2 { // begun again, then repeated
		ran := false
		got, replayed, err := redislock.Do(t.Context(), k, db, order("a"),
			func(context.Context, lock.Tokens) (string, error) {
				ran = true
				return "A", nil
			}, note)
		if err != nil || got != "A" || replayed != (i > 0) || ran != (i == 0) {
			t.Errorf("%d: %q, replayed %v, ran %v, %v", i, got, replayed, ran, err)
		}
	}
	if db.User()["done"] != "BA" {
		t.Errorf("done %q", db.User()["done"])
	}
}

// TestDoWithoutALease: Do works without Redis, but does not begin while another holder has the lease.
func TestDoWithoutALease(t *testing.T) {
	s, c := mini(t)
	db := memstore.New(nil)
	k := locker(t, goredis.New(c), redislock.Options{Wait: -1})
	l, err := k.Acquire(t.Context(), "order\x007")
	if err != nil {
		t.Fatal(err)
	}
	work := func(context.Context, lock.Tokens) (string, error) { return "A", nil }
	if _, _, err := redislock.Do(t.Context(), k, db, order("a"), work, note); !errors.Is(err,
		redislock.ErrTaken) || db.User()["done"] != "" {
		t.Errorf("%v, done %q", err, db.User()["done"])
	}
	s.Close()
	if err := l.Release(t.Context()); !errors.Is(err, redislock.ErrUnavailable) {
		t.Errorf("a release without Redis: %v", err)
	}
	if got, _, err := redislock.Do(t.Context(), k, db, order("a"), work, note); err != nil || got != "A" ||
		db.User()["done"] != "A" {
		t.Errorf("%q, %v, done %q", got, err, db.User()["done"])
	}
}
