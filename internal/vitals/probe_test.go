package vitals

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A probe asks once at a time and once in a while, however often it is told to, and cuts off what hangs.
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
				t.Fatalf("%d questions, want %d", calls, want)
			}
		}
		begun := time.Now()
		ask(100, 1)
		if !p.Last().At.IsZero() {
			t.Fatal("there is an answer before there is one")
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
			t.Fatalf("it is away still: %+v, the next question in %v", at, p.Wait())
		}
		time.Sleep(p.Wait())
		answer = func(context.Context) error { return nil }
		p.AskNow(t.Context())
		if at := p.Last(); at.Err != nil || at.Since != at.At {
			t.Fatalf("it is back: %+v", at)
		}
	})
}

// A question that its own process cut off says nothing of the server.
func TestProbeCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewProbe(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, time.Minute,
			time.Now, func(err error) { t.Errorf("it tells %v", err) })
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
