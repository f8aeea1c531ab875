package vitals

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestProbeIsBounded checks that a probe limits its requestsfor any number of calls, and cancels one
// that hangs.
func TestProbeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, away := 0, errors.New("away")
		answer := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		p := NewProbe(func(ctx context.Context) error { calls++; return answer(ctx) },
			2*time.Second, time.Now, nil)
		ask := func(times int, want int) {
			t.Helper()
			for range times {
				p.Ask(t.Context())
			}
			synctest.Wait()
			if calls != want {
				t.Fatalf("%d requests, want %d", calls, want)
			}
		}
		begun := time.Now()
		ask(100, 1)
		if !p.Last().At.IsZero() {
			t.Fatal("Last has an answer before the first request ended")
		}
		<-p.Told()
		if at := p.Last(); !errors.Is(at.Err, context.DeadlineExceeded) || at.Since != at.At ||
			at.At.Sub(begun) != 2*time.Second {
			t.Fatalf("a server that hangs is found %+v", at)
		}
		since := p.Last().Since
		answer = func(context.Context) error { return away }
		ask(100, 1) // too soon
		for n := 2; n < 5; n++ {
			time.Sleep(p.Wait())
			ask(100, n)
		}
		if at := p.Last(); !errors.Is(at.Err, away) || at.Since != since || p.Wait() < time.Second {
			t.Fatalf("it is still away: %+v, the next request in %v", at, p.Wait())
		}
		time.Sleep(p.Wait())
		answer = func(context.Context) error { return nil }
		p.AskNow(t.Context())
		if at := p.Last(); at.Err != nil || at.Since != at.At {
			t.Fatalf("it is back: %+v", at)
		}
	})
}

// TestProbeCutOff checks that a request that its own process cancels is no sign of an outage.
func TestProbeCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewProbe(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, time.Minute,
			time.Now, func(err error) { t.Errorf("it reports %v", err) })
		ctx, stop := context.WithCancel(t.Context())
		p.Ask(ctx)
		synctest.Wait()
		stop()
		synctest.Wait()
		if at := p.Last(); !at.At.IsZero() {
			t.Fatalf("it answered %+v", at)
		}
	})
}
