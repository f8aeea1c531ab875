package rediscmd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/rediscmd"
	"github.com/skald-go/skald/rediscmd/goredis"
	"github.com/skald-go/skald/rediscmd/rueidiscmd"
)

// clients returns all clients, connected to the server at host:port.
func clients(t *testing.T, at string) map[string]rediscmd.Client {
	t.Helper()
	a := redis.NewClient(&redis.Options{Addr: at, MaxRetries: -1})
	b, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{at}, DisableCache: true,
		AlwaysRESP2: true, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.Close()
		b.Close()
	})
	return map[string]rediscmd.Client{"go-redis": goredis.New(a), "rueidis": rueidiscmd.New(b)}
}

// All clients return the same replies, from a real server and from miniredis.
func TestClientsAnswerAlike(t *testing.T) {
	t.Run("miniredis", func(t *testing.T) { answersAlike(t, miniredis.RunT(t).Addr()) })
	t.Run("real", func(t *testing.T) {
		o, err := redis.ParseURL(need.Redis(t))
		if err != nil {
			t.Fatal(err)
		}
		answersAlike(t, o.Addr)
	})
}

func answersAlike(t *testing.T, at string) {
	for name, c := range clients(t, at) {
		key := fmt.Sprintf("skald:test:%s:%d", name, time.Now().UnixNano())
		got, err := c.Do(t.Context(), [][]string{
			{"GET", key},
			{"SET", key, "\x00\xff größe", "NX", "PX", "60000"},
			{"SET", key, "other", "NX", "PX", "60000"},
			{"GET", key},
			{"NO SUCH COMMAND"},
			{"EVAL", "return redis.call('DEL', KEYS[1])", "1", key},
			{"GET", key},
		})
		if err != nil || len(got) != 7 {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		if got[4].Err == nil {
			t.Errorf("%s: a command that is not there: %+v", name, got[4])
		}
		got[4].Err = nil
		want := []rediscmd.Reply{{Nil: true}, {Text: "OK"}, {Nil: true}, {Text: "\x00\xff größe"}, {},
			{Text: "1"}, {Nil: true}}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s, reply %d: %+v, want %+v", name, i, got[i], want[i])
			}
		}
	}
}

// An unavailable server is an error of the call, for any commands.
func TestClientsOfAnUnavailableServer(t *testing.T) {
	s := miniredis.RunT(t)
	all := clients(t, s.Addr())
	s.Close()
	for name, c := range all {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if got, err := c.Do(ctx, [][]string{{"GET", "k"}, {"GET", "l"}}); err == nil || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		cancel()
	}
}

type fake func(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error)

func (f fake) Do(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error) {
	return f(ctx, commands)
}

// A client that hangs and ignores its context costs 25 ms, and then nothing for a second. While four of its
// calls hang, no call is added.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var hangs atomic.Pointer[chan struct{}]
		hang := func() chan struct{} { c := make(chan struct{}); hangs.Store(&c); return c }
		first := hang()
		g := rediscmd.NewGuard(fake(func(_ context.Context, commands [][]string) ([]rediscmd.Reply, error) {
			calls.Add(1)
			if c := hangs.Load(); c != nil {
				<-*c
			}
			return make([]rediscmd.Reply, len(commands)), nil
		}), &rediscmd.GuardOptions{Logger: slog.New(slog.DiscardHandler)})
		ask := func() (time.Duration, error) {
			begun := time.Now()
			_, err := g.Do(t.Context(), [][]string{{"PING"}})
			return time.Since(begun), err
		}
		for n := range 6 {
			took, err := ask()
			if n < 4 && (err == nil || took != 25*time.Millisecond) || n >= 4 &&
				(!errors.Is(err, rediscmd.ErrBypassed) || took != 0) {
				t.Errorf("call %d: %v after %v", n, err, took)
			}
			if took, err := ask(); !errors.Is(err, rediscmd.ErrBypassed) || took != 0 {
				t.Errorf("behind call %d: %v after %v", n, err, took)
			}
			time.Sleep(time.Second)
		}
		if calls.Load() != 4 || !g.Status().Unavailable {
			t.Errorf("%d calls, %+v", calls.Load(), g.Status())
		}
		close(first)
		synctest.Wait()
		hangs.Store(nil)
		if took, err := ask(); err != nil || took != 0 {
			t.Errorf("behind its return: %v after %v", err, took)
		}
		if s := g.Status(); s != (rediscmd.GuardStatus{Calls: 5, Failures: 4, Bypassed: 8}) {
			t.Errorf("%+v", s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		second := hang()
		if _, err := g.Do(ctx, [][]string{{"PING"}}); !errors.Is(err, context.Canceled) ||
			g.Status().Unavailable {
			t.Errorf("a caller that goes away: %v, %+v", err, g.Status())
		}
		close(second)
	})
}

// A client that loses replies is detected.
func TestGuardCountsReplies(t *testing.T) {
	g := rediscmd.NewGuard(
		fake(func(context.Context, [][]string) ([]rediscmd.Reply, error) { return nil, nil }),
		&rediscmd.GuardOptions{Logger: slog.New(slog.DiscardHandler)})
	if _, err := g.Do(t.Context(), [][]string{{"PING"}}); !errors.Is(err, rediscmd.ErrReplies) {
		t.Error(err)
	}
}
