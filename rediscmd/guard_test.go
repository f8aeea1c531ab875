package rediscmd_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald/rediscmd"
)

func ones(commands [][]string) []rediscmd.Reply {
	replies := make([]rediscmd.Reply, len(commands))
	for i := range replies {
		replies[i].Text = "1"
	}
	return replies
}

// many starts n concurrent calls and waits for all.
func many(t *testing.T, g *rediscmd.Guard, n int) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { _, _ = g.Do(t.Context(), [][]string{{"GET", "k"}}) })
	}
	wg.Wait()
}

// With a client that hangs, the number of running calls is limited, and after the rest one call tests.
func TestGuardBoundsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		hang := make(chan struct{})
		g := rediscmd.NewGuard(fake(func(_ context.Context, commands [][]string) ([]rediscmd.Reply, error) {
			calls.Add(1)
			<-hang
			return ones(commands), nil
		}), &rediscmd.GuardOptions{Logger: slog.New(slog.DiscardHandler)})
		begun := time.Now()
		many(t, g, 500)
		if took := time.Since(begun); calls.Load() != 64 || took != 25*time.Millisecond {
			t.Errorf("%d calls under way after %v", calls.Load(), took)
		}
		close(hang)
		synctest.Wait()

		hang, begun = make(chan struct{}), time.Now()
		calls.Store(0)
		time.Sleep(time.Second)
		many(t, g, 500)
		if took := time.Since(begun) - time.Second; calls.Load() != 1 || took != 25*time.Millisecond {
			t.Errorf("%d calls tried, after %v", calls.Load(), took)
		}
		close(hang)
		synctest.Wait()
	})
}

// If the caller of the testing call gives up, another call tests.
func TestGuardTestsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := true
		hang := make(chan struct{})
		g := rediscmd.NewGuard(fake(func(_ context.Context, commands [][]string) ([]rediscmd.Reply, error) {
			if fail {
				return nil, errors.New("gone")
			}
			if commands[0][0] == "HANG" {
				<-hang
			}
			return ones(commands), nil
		}), &rediscmd.GuardOptions{Logger: slog.New(slog.DiscardHandler)})
		many(t, g, 1)
		time.Sleep(time.Second)
		fail = false
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := g.Do(ctx, [][]string{{"HANG"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := g.Do(t.Context(), [][]string{{"GET", "k"}}); err != nil || g.Status().Unavailable {
			t.Errorf("%v, %+v", err, g.Status())
		}
		close(hang)
	})
}

// Insist also sends while Redis is bypassed, and a reply ends the bypass.
func TestGuardInsists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := true
		g := rediscmd.NewGuard(fake(func(_ context.Context, commands [][]string) ([]rediscmd.Reply, error) {
			if fail {
				return nil, errors.New("gone")
			}
			return ones(commands), nil
		}), &rediscmd.GuardOptions{Logger: slog.New(slog.DiscardHandler)})
		ask := func(do func(context.Context, [][]string) ([]rediscmd.Reply, error)) error {
			_, err := do(t.Context(), [][]string{{"GET", "k"}})
			return err
		}
		first, second := ask(g.Do), ask(g.Do)
		if fail = false; first == nil || !errors.Is(second, rediscmd.ErrBypassed) {
			t.Errorf("%v, %v", first, second)
		}
		if err := errors.Join(ask(g.Insist), ask(g.Do)); err != nil {
			t.Error(err)
		}
	})
}

// A call is abandoned after its timeout, but its context continues for a second: connecting takes longer
// than a command.
func TestGuardLeavesTheCallTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lasted time.Duration
		g := rediscmd.NewGuard(fake(func(ctx context.Context, _ [][]string) ([]rediscmd.Reply, error) {
			begun := time.Now()
			<-ctx.Done()
			lasted = time.Since(begun)
			return nil, ctx.Err()
		}), &rediscmd.GuardOptions{Logger: slog.New(slog.DiscardHandler)})
		begun := time.Now()
		many(t, g, 1)
		if took := time.Since(begun); took != 25*time.Millisecond {
			t.Errorf("left after %v", took)
		}
		time.Sleep(2 * time.Second)
		if synctest.Wait(); lasted != time.Second {
			t.Errorf("its context ended after %v", lasted)
		}
	})
}

// Undo commands of an abandoned call are sent after the call has ended, once Redis replies, and once more
// in case the call was late.
func TestGuardUndoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		refusals, undone := 2, 0
		taken := false
		g := rediscmd.NewGuard(fake(func(_ context.Context, commands [][]string) ([]rediscmd.Reply, error) {
			if commands[0][0] == "TAKE" {
				<-hang
				taken = true
				return ones(commands), nil
			}
			if !taken {
				t.Error("it is undone before it is over")
			}
			if refusals--; refusals == 1 {
				return nil, errors.New("gone")
			} else if refusals == 0 {
				return []rediscmd.Reply{{Err: errors.New("BUSY")}}, nil
			}
			undone++
			return ones(commands), nil
		}), &rediscmd.GuardOptions{Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := g.Take(ctx, [][]string{{"TAKE"}}, [][]string{{"UNDO"}}, time.Minute); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		close(hang)
		time.Sleep(10 * time.Second)
		if synctest.Wait(); undone != 2 {
			t.Errorf("undone %d times", undone)
		}
	})
}

// An undo command is dropped when its time is over.
func TestGuardGivesUpUndoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		g := rediscmd.NewGuard(fake(func(context.Context, [][]string) ([]rediscmd.Reply, error) {
			calls++
			return nil, errors.New("gone")
		}), &rediscmd.GuardOptions{Logger: slog.New(slog.DiscardHandler)})
		g.Undo([][]string{{"UNDO"}}, 30*time.Second)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		before := calls
		time.Sleep(time.Minute)
		if synctest.Wait(); before < 20 || calls != before {
			t.Errorf("%d calls in its time, %d later", before, calls-before)
		}
	})
}

// A panic of the client is a failure.
func TestGuardCatchesPanics(t *testing.T) {
	g := rediscmd.NewGuard(
		fake(func(context.Context, [][]string) ([]rediscmd.Reply, error) {
			panic("makeslice: len out of range")
		}),
		&rediscmd.GuardOptions{Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	if _, err := g.Do(t.Context(), [][]string{{"GET", "k"}}); err == nil ||
		!strings.Contains(err.Error(), "the client panicked: makeslice") || !g.Status().Unavailable {
		t.Errorf("%v, %+v", err, g.Status())
	}
}

// Refusals and short failures of Redis are logged at a limited rate.
func TestGuardLimitsLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		n := 0
		g := rediscmd.NewGuard(fake(func(_ context.Context, commands [][]string) ([]rediscmd.Reply, error) {
			if n++; commands[0][0] == "GET" && n%2 == 0 {
				return nil, errors.New("gone")
			}
			return []rediscmd.Reply{{Err: errors.New("NOPERM no permission")}}, nil
		}), &rediscmd.GuardOptions{Logger: slog.New(slog.NewTextHandler(&said, nil))})
		for range 15 {
			_, _ = g.Do(t.Context(), [][]string{{"SET", "k"}})
		}
		if got := said.String(); strings.Count(got, "NOPERM") != 1 || strings.Count(got, "\n") != 1 ||
			!strings.Contains(got, "command=SET") {
			t.Errorf("of 15 refusals it says:\n%s", got)
		}
		said.Reset()
		for range 15 {
			_, _ = g.Do(t.Context(), [][]string{{"GET", "k"}})
			time.Sleep(time.Second)
		}
		if got := said.String(); strings.Count(got, "away or slow") != 1 ||
			strings.Count(got, "redis: answers again") != 1 {
			t.Errorf("of one that comes and goes it says:\n%s", got)
		}
	})
}
