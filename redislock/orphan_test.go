package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
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

// gate is a client with a function that runs before or instead of a call.
type gate struct {
	rediscmd.Client
	do atomic.Pointer[func(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error)]
}

func (g *gate) Do(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error) {
	if do := g.do.Load(); do != nil {
		return (*do)(ctx, commands)
	}
	return g.Client.Do(ctx, commands)
}

func (g *gate) set(do func(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error)) {
	g.do.Store(&do)
}

// eventually waits for a condition that the background fulfils.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(5 * time.Minute); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// TestNoLeaseIsLeftByAHang: if Redis hangs until all callers have given up, no lease without a holder is
// left.
func TestNoLeaseIsLeftByAHang(t *testing.T) {
	at, server := need.OwnRedis(t)
	o, err := redis.ParseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	look := redis.NewClient(o)
	t.Cleanup(func() { _ = look.Close() })
	for name, heeds := range map[string]bool{"a client that heeds its context": true,
		"one that does not": false} {
		t.Run(name, func(t *testing.T) {
			o, _ := redis.ParseURL(at)
			o.ContextTimeoutEnabled = heeds
			c := redis.NewClient(o)
			t.Cleanup(func() { _ = c.Close() })
			k, err := redislock.New(goredis.New(c),
				&redislock.Options{TTL: time.Hour, Timeout: 50 * time.Millisecond, Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			if err := server.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					if l, err := k.Acquire(t.Context(),
						fmt.Sprint(i)); !errors.Is(err, redislock.ErrUnavailable) {
						t.Errorf("%v, %v", l, err)
					}
				})
			}
			wg.Wait()
			if err := server.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			taken := func() bool { // by this or by the other client: a late SET
				return strings.Contains(look.Info(t.Context(), "commandstats").Val(), "cmdstat_set")
			}
			eventually(t, "nothing was taken", func() bool { return taken() || heeds })
			eventually(t, "a lease is left that nobody has",
				func() bool { return look.DBSize(t.Context()).Val() == 0 })
		})
	}
}

// TestNoLeaseIsLeftByACallerThatGoes: a caller whose context ends during the request leaves no lease
// behind.
func TestNoLeaseIsLeftByACallerThatGoes(t *testing.T) {
	s, c := mini(t)
	g := &gate{Client: goredis.New(c)}
	k := locker(t, g, redislock.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	gone, over := make(chan struct{}), make(chan struct{})
	var first sync.Once
	g.set(func(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error) {
		mine := false
		if first.Do(func() { mine = true }); mine {
			cancel()
			<-gone
			defer close(over)
		}
		return g.Client.Do(ctx, commands)
	})
	if _, err := k.Acquire(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(gone)
	<-over
	eventually(t, "a lease is left that nobody has", func() bool { return !s.Exists("skald:lease:x") })
	if _, err := k.Acquire(t.Context(), "x"); err != nil {
		t.Error(err)
	}
}

// TestReplyIsLost: if a client loses the reply and sends the command again, it finds its own token.
func TestReplyIsLost(t *testing.T) {
	_, c := mini(t)
	g := &gate{Client: goredis.New(c)}
	g.set(func(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error) {
		if _, err := g.Client.Do(ctx, commands); err != nil {
			return nil, err
		}
		return g.Client.Do(ctx, commands)
	})
	if _, err := locker(t, g, redislock.Options{Wait: -1}).Acquire(t.Context(), "x", "y"); err != nil {
		t.Error(err)
	}
}

// busy answers each command with an error, as a server that runs a script does.
func busy(_ context.Context, commands [][]string) ([]rediscmd.Reply, error) {
	replies := make([]rediscmd.Reply, len(commands))
	for i := range replies {
		replies[i].Err = errors.New("BUSY Redis is busy running a script")
	}
	return replies, nil
}

// ones answers 1 to each command: everything is taken, renewed and released.
func ones(_ context.Context, commands [][]string) ([]rediscmd.Reply, error) {
	replies := make([]rediscmd.Reply, len(commands))
	for i := range replies {
		replies[i].Text = "1"
	}
	return replies, nil
}

// TestRenewalIsRefusedForAWhile: an error of a renewal does not end a lease, because the next renewal may
// succeed. If none does, the lease ends when its time is over.
func TestRenewalIsRefusedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		g.set(ones)
		k := locker(t, g, redislock.Options{TTL: 30 * time.Second})
		l, err := k.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		g.set(busy) // at 10 and 20 s
		time.Sleep(25 * time.Second)
		if err := context.Cause(l.Context()); err != nil {
			t.Errorf("an error ends the lease after %v: %v", time.Since(begun), err)
		}
		<-l.Context().Done()
		if took := time.Since(begun); took != 30*time.Second ||
			!errors.Is(context.Cause(l.Context()), redislock.ErrLost) {
			t.Errorf("ended after %v: %v", took, context.Cause(l.Context()))
		}
		time.Sleep(time.Minute) // the release of its token is retried for as long
	})
}

// TestReleaseIsRefused: a refused release returns an error, and is retried.
func TestReleaseIsRefused(t *testing.T) {
	s, c := mini(t)
	g := &gate{Client: goredis.New(c)}
	l, err := locker(t, g, redislock.Options{}).Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	g.set(busy)
	if err := l.Release(t.Context()); !errors.Is(err, redislock.ErrUnavailable) ||
		!strings.Contains(err.Error(), "BUSY") {
		t.Errorf("%v", err)
	}
	g.set(g.Client.Do)
	eventually(t, "a lease is left that nobody has", func() bool { return !s.Exists("skald:lease:x") })
}

// TestLeaseEndsWhileARenewalHangs: the context of a lease ends exactly with the lease, even while a renewal
// hangs. The token is then released, because the renewal may have succeeded.
func TestLeaseEndsWhileARenewalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		g.set(ones)
		k, err := redislock.New(g, &redislock.Options{TTL: 30 * time.Second, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		l, err := k.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		hang := make(chan struct{})
		var released atomic.Bool
		g.set(func(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error) {
			<-hang
			if strings.Contains(commands[0][1], "DEL") {
				released.Store(true)
			}
			return ones(ctx, commands)
		})
		<-l.Context().Done()
		if took := time.Since(begun); took != 30*time.Second ||
			!errors.Is(context.Cause(l.Context()), redislock.ErrLost) {
			t.Errorf("ended after %v: %v", took, context.Cause(l.Context()))
		}
		close(hang)
		time.Sleep(time.Minute)
		if synctest.Wait(); !released.Load() {
			t.Error("a lease without a holder is left")
		}
	})
}

// TestManyDosWithoutRedis: while Redis is down, Do rarely logs that, and rarely calls Redis.
func TestManyDosWithoutRedis(t *testing.T) {
	s := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	s.Close()
	var said lines
	k, err := redislock.New(goredis.New(c),
		&redislock.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	db := memstore.New(nil)
	for i := range 20 {
		w := lock.Work{Scope: "export", Key: fmt.Sprint(i),
			Entities: []lock.Entity{{Space: "order", Key: "7"}}}
		if _, _, err := redislock.Do(t.Context(), k, db, w,
			func(context.Context, lock.Tokens) (string, error) { return "A", nil }, note); err != nil {
			t.Error(err)
		}
	}
	if got := said.String(); strings.Count(got, "working without a lease") != 1 {
		t.Errorf("20 calls logged:\n%s", got)
	}
}

// lines collects log lines.
type lines struct {
	mu sync.Mutex
	strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}
