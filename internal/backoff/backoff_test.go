package backoff

import (
	"context"
	"testing"
	"time"
)

func TestAfter(t *testing.T) {
	const first, most = 100 * time.Millisecond, 30 * time.Second
	for _, c := range []struct {
		attempt int
		least   time.Duration
	}{
		{0, first}, {1, first}, {2, 2 * first}, {3, 4 * first}, {9, 256 * first}, {10, most}, {11, most},
		{1 << 30, most},
	} {
		spread := map[time.Duration]bool{}
		for range 200 {
			d := After(c.attempt, first, most)
			if d < c.least || d > c.least+c.least/2 {
				t.Fatalf("After(%d) = %v, want %v to %v", c.attempt, d, c.least, c.least+c.least/2)
			}
			spread[d] = true
		}
		if len(spread) < 100 {
			t.Errorf("After(%d) gives only %d different waits of 200", c.attempt, len(spread))
		}
	}
}

// Work goes on within about a second after a server is back, however long it was away.
func TestSoon(t *testing.T) {
	for fails, most := range map[int]time.Duration{0: 53, 1: 53, 2: 105, 5: 840, 6: 1050, 1000: 1050} {
		for range 100 {
			if d := Soon(fails); d > most*time.Millisecond || d < most*time.Millisecond*6/10 {
				t.Fatalf("%v after %d failures, at most %d ms", d, fails, most)
			}
		}
	}
}

func TestAfterAtTheEdges(t *testing.T) {
	if d := After(5, 0, 0); d != 0 {
		t.Errorf("After(5, 0, 0) = %v", d)
	}
	if d := After(1, time.Minute, time.Second); d < time.Second || d > 1500*time.Millisecond {
		t.Errorf("a first wait above the most = %v", d)
	}
	if d := After(200, time.Nanosecond, 100*365*24*time.Hour); d < 100*365*24*time.Hour {
		t.Errorf("a wait of a century = %v", d)
	}
}

func TestSleep(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if !Sleep(ctx, time.Nanosecond) {
		t.Error("it did not wait to the end")
	}
	cancel()
	if Sleep(ctx, time.Hour) {
		t.Error("it waited on though its context was done")
	}
}
